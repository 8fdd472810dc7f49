package steps

import (
	"fmt"
	"strings"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// The units under which kubeadm runs on a host. The target is part of the name, so that the record
// of an earlier rung says nothing about this one.
func applyUnit(target string) string { return "kubeadm-apply-" + target }
func nodeUnit(target string) string  { return "kubeadm-node-" + target }

func kubeadmUnits(role, target string) []string {
	if role == config.ControlPlane {
		return []string{applyUnit(target), nodeUnit(target)}
	}
	return []string{nodeUnit(target)}
}

// unitsOf are the units of several versions.
func unitsOf(role string, versions []string) []string {
	var units []string
	for _, v := range versions {
		units = append(units, kubeadmUnits(role, v)...)
	}
	return units
}

// unfinished says why a run of kubeadm has to be looked at again: it is still going, was cut off, or failed.
func unfinished(unit string, r hosts.Record) string {
	switch {
	case r.State == hosts.Running:
		return "unit " + unit + " is running"
	case r.State == hosts.Interrupted && r.Rebooted:
		return "unit " + unit + " was cut off by a reboot of the host"
	case r.State == hosts.Interrupted:
		return "unit " + unit + " was cut off before its end"
	case r.State == hosts.Exited && r.Code != 0:
		return fmt.Sprintf("unit %s ended with exit status %d", unit, r.Code)
	}
	return ""
}

// needsBinary says why a program has to be replaced; a program that is not there is not missed.
func needsBinary(f Facts, host, name string) string {
	b, found := f.Hosts[host].Binaries[name]
	if !found || b.Version == f.Target {
		return ""
	}
	return fmt.Sprintf("%s is %s", name, orUnknown(b.Version))
}

func orUnknown(version string) string {
	if version == "" {
		return "of unknown version"
	}
	return version
}

// needsControlPlane says what kubeadm still has to do on a control plane. All outcomes count, not
// one of them: manifests, the running API server, and that kubeadm came to its end.
func needsControlPlane(f Facts, host string) string {
	h := f.Hosts[host]
	var why []string
	for _, unit := range kubeadmUnits(h.Role, f.Target) {
		if left := unfinished(unit, h.Kubeadm[unit]); left != "" {
			why = append(why, left)
		}
	}
	for _, component := range controlPlaneComponents {
		if left := needsManifest(f, h, component); left != "" {
			why = append(why, left)
		}
	}
	if len(why) == 0 && h.APIVersion != f.Target {
		if h.APIVersion == "" {
			return "its API server does not answer"
		}
		return "its API server answers " + h.APIVersion
	}
	return strings.Join(why, ", ")
}

func needsManifest(f Facts, h Host, component string) string {
	m, found := h.Manifests[component]
	if !found {
		if component == "etcd" && f.Cluster.ExternalEtcd {
			return ""
		}
		return "the manifest of " + component + " is missing"
	}
	tag, want := tagOf(m.Image), f.Target
	if component == "etcd" {
		// kubeadm leaves an etcd alone that is newer than its own.
		want = wantedEtcd(f, h.Arch)
		if want == "" || !older(tag, want) {
			return ""
		}
	}
	if tag == want {
		return ""
	}
	return component + " is " + orUnknown(tag)
}

// wantedEtcd is the tag that kubeadm takes etcd to: the one pinned in its configuration, else its own.
func wantedEtcd(f Facts, arch string) string {
	if f.Cluster.EtcdTag != "" {
		return f.Cluster.EtcdTag
	}
	return f.Artifacts.Image(arch, "etcd")
}

// needsApply says what is left for the host where `kubeadm upgrade apply` runs.
func needsApply(f Facts, host string) string {
	if why := needsControlPlane(f, host); why != "" {
		return why
	}
	if f.Cluster.KubeadmVersion != f.Target {
		return "kubeadm-config says " + f.Cluster.KubeadmVersion
	}
	return ""
}

// applyHost picks the control plane where `kubeadm upgrade apply` runs: where it was begun and did
// not come to its end, else the first in the file that still has something to do. It is "" once
// the cluster's configuration says the target and no such run is left: the others follow.
func applyHost(c *config.Cluster, f Facts) string {
	for _, h := range controlPlanes(c) {
		if unfinished(applyUnit(f.Target), f.Hosts[h.Name].Kubeadm[applyUnit(f.Target)]) != "" {
			return h.Name
		}
	}
	if f.Cluster.KubeadmVersion == f.Target {
		return ""
	}
	for _, h := range controlPlanes(c) {
		if needsControlPlane(f, h.Name) != "" {
			return h.Name
		}
	}
	return controlPlanes(c)[0].Name
}

// needsNodeConfig says why a worker's kubelet configuration has to be written anew. The file holds no
// version, so it is the record of kubeadm's run that tells, as long as the kubelet does not run yet.
func needsNodeConfig(f Facts, host string) string {
	unit := nodeUnit(f.Target)
	record := f.Hosts[host].Kubeadm[unit]
	if why := unfinished(unit, record); why != "" {
		return why
	}
	if record.State == hosts.Exited || needsKubelet(f, host) == "" && needsRestart(f, host) == "" {
		return ""
	}
	return "the kubelet's configuration is not of " + f.Target + " yet"
}

// needsKubeadm says why kubeadm has to be replaced: only where it still has something to do.
func needsKubeadm(f Facts, host, todo string) string {
	if todo == "" {
		return ""
	}
	return needsBinary(f, host, "kubeadm")
}

// needsKubelet says why the kubelet, and what is installed with it, has to be replaced. An old
// kubectl beside a kubelet that has arrived is no reason to drain a node.
func needsKubelet(f Facts, host string) string {
	if why := needsBinary(f, host, "kubelet"); why != "" || needsRestart(f, host) == "" {
		return why
	}
	if _, have := f.Artifacts.Binary(f.Hosts[host].Arch, "kubectl"); !have {
		return ""
	}
	return needsBinary(f, host, "kubectl")
}

// needsRestart says why the kubelet has to be restarted: what runs is not what is wanted.
func needsRestart(f Facts, host string) string {
	if v := f.Node(host).Kubelet; v != f.Target {
		return "the running kubelet is " + orUnknown(v)
	}
	return ""
}

// needsRelease says why a window has to be closed: we opened it.
func needsRelease(f Facts, host string) string {
	if w := f.Node(host).Window; w != "" {
		return "kuberung opened a window on it: " + w
	}
	return ""
}

// needsCordon says why a window has to be opened.
func needsCordon(f Facts, host string) string {
	n := f.Node(host)
	switch {
	case n.Window == "" && n.Cordoned:
		return "it was cordoned by somebody else and stays so; this is noted on the node"
	case n.Window == "" || !n.Cordoned:
		return "it takes new pods"
	}
	return ""
}

// needsStaging says which files are not on the host yet.
func needsStaging(f Facts, host string) string {
	missing, size := missingPrograms(f, f.Hosts[host])
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("%d programs (%s) are not on it", len(missing), mebibytes(size))
}

func missingPrograms(f Facts, h Host) (missing []Artifact, size int64) {
	for _, a := range staging(f, h) {
		if a.Images == nil && !h.Staged[a.stagedAt(f.Target)] {
			missing, size = append(missing, a), size+a.Size
		}
	}
	return missing, size
}

// needsImages says which images the host's runtime does not hold yet.
func needsImages(f Facts, host string) string {
	missing, size := missingImages(f, f.Hosts[host])
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("%d images (%s) are not on it", len(missing), mebibytes(size))
}

func missingImages(f Facts, h Host) (missing []Artifact, size int64) {
	for _, a := range staging(f, h) {
		for _, image := range a.Images {
			if !h.Images[image] {
				missing, size = append(missing, a), size+a.Size
				break
			}
		}
	}
	return missing, size
}

func staging(f Facts, h Host) []Artifact {
	return f.Artifacts.For(h.Arch, h.Role == config.ControlPlane)
}

func mebibytes(size int64) string { return fmt.Sprintf("%d MiB", (size+(1<<20)-1)>>20) }

func controlPlanes(c *config.Cluster) []config.Host { return withRole(c, config.ControlPlane) }
func workers(c *config.Cluster) []config.Host       { return withRole(c, config.Worker) }

func withRole(c *config.Cluster, role string) []config.Host {
	var found []config.Host
	for _, h := range c.Hosts {
		if h.Role == role {
			found = append(found, h)
		}
	}
	return found
}
