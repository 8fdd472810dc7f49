package steps

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kuberung/kuberung/internal/config"
)

// imagesNeeded are the images that kubeadm will start or a health check may need.
func imagesNeeded(c ClusterFacts) []string {
	needed := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "pause"}
	if c.ProxyImage != "" {
		needed = append(needed, "kube-proxy")
	}
	if c.CoreDNSImage != "" {
		needed = append(needed, "coredns")
	}
	return needed
}

// artifactsPresent looks at what there is to install for every rung, before the first.
func artifactsPresent(c *config.Cluster, f Facts) []Finding {
	if f.Cluster.Err == nil && f.Target == c.Target && len(Plan(c, f, nil)) == 0 {
		return nil // nothing will be installed
	}
	var found []Finding
	for _, h := range way(c, f) {
		if h.version == "" {
			found = append(found, lacksMinor(c, f, h.minor))
			continue
		}
		a := f.artifactsOf(h.version)
		if len(a.Problems) > 0 {
			for _, p := range a.Problems {
				found = append(found, block(c.ArtifactsAt.String(), p, releaseFix(c, f, h.version, h.version)))
			}
			continue
		}
		for _, what := range lacking(c, f, a) {
			found = append(found, block(c.ArtifactsAt.String(), what, "add it, and its line in SHA256SUMS"))
		}
		found = append(found, passedOver(c, f, h)...)
	}
	return found
}

// releaseFix says where the files of a release belong. Who named the directory of a release is not told to nest another.
func releaseFix(c *config.Cluster, f Facts, what, release string) string {
	if _, err := version.ParseSemantic(filepath.Base(c.Artifacts)); err == nil && len(f.artifactsOf(c.Target).Files) == 0 {
		return "name the directory above: artifacts: " + filepath.Dir(c.Artifacts)
	}
	return "put the files of " + what + " into " + filepath.Join(c.Artifacts, release) + ", with their SHA256SUMS"
}

// lacking says what is wrong with a release, or not there that a host needs: nothing of it is installed then.
func lacking(c *config.Cluster, f Facts, a Artifacts) []string {
	if len(a.Problems) > 0 {
		return a.Problems
	}
	missing, archs := map[string]bool{}, map[string]bool{}
	for _, h := range asked(c, f) {
		archs[f.Hosts[h.Name].Arch] = true
	}
	for _, arch := range sorted(archs) {
		for _, name := range []string{"kubeadm", "kubelet"} {
			if art, have := a.Binary(arch, name); !have {
				missing[fmt.Sprintf("%s lacks %s for linux-%s", a.Version, name, arch)] = true
			} else if art.Size == 0 {
				missing[fmt.Sprintf("%s lacks %s for linux-%s (it is empty)", a.Version, name, arch)] = true
			}
		}
		for _, image := range imagesNeeded(f.Cluster) {
			if a.Image(arch, image) == "" {
				missing[fmt.Sprintf("%s lacks image %s for linux-%s", a.Version, image, arch)] = true
			}
		}
	}
	return sorted(missing)
}

// lacksMinor is a rung for which there is nothing that could be installed.
func lacksMinor(c *config.Cluster, f Facts, minor int) Finding {
	text := fmt.Sprintf("the way from %s to %s leads over v1.%d: kubeadm moves one minor at a time, and there is no whole v1.%d release", f.Cluster.KubeadmVersion, c.Target, minor, minor)
	begun := newestOf(pieces(c, f), minor)
	if begun != "" {
		text += " that is not older than " + begun
	}
	for _, a := range f.Shelf {
		if m, ok := minorOf(a.Version); ok && m == minor && !older(a.Version, begun) {
			text += "; " + oneLine(lacking(c, f, a)[0])
			break
		}
	}
	if begun == "" {
		begun = fmt.Sprintf("v1.%d.PATCH", minor)
	}
	return block(c.ArtifactsAt.String(), text, releaseFix(c, f, "a release of that minor", begun))
}

// passedOver warns of a newer release on the way that is not whole, so that an older one is used.
func passedOver(c *config.Cluster, f Facts, h hop) []Finding {
	var found []Finding
	for _, a := range f.Shelf {
		if m, ok := minorOf(a.Version); !ok || m != h.minor || h.version == c.Target || !older(h.version, a.Version) {
			continue
		}
		if wrong := lacking(c, f, a); len(wrong) > 0 {
			found = append(found, warn(c.ArtifactsAt.String(), fmt.Sprintf("%s is not whole, so the way leads over %s: %s", a.Version, h.version, oneLine(wrong[0])),
				"repair it if that release is wanted, or take it away"))
		}
	}
	return found
}
