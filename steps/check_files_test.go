package steps

import (
	"errors"
	"testing"

	"github.com/kuberung/kuberung/internal/config"
)

func TestChecksOfDiskSpace(t *testing.T) {
	free := func(name string, disks ...Disk) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) {
			for i := range disks {
				disks[i].Free <<= 20
			}
			f.host(name, func(h *Host) { h.Free = disks })
		}
	}
	// Four programs of 50 MiB: staged, and the old ones kept; the new beside the old. Images of 51 MiB
	// together, thrice; 161 MiB on a control plane. 512 MiB stay free.
	for _, tt := range []finds{
		{"just enough for programs", free("w-1", Disk{"/var/lib", "/var", 512 + 400}), nil},
		{"not enough for programs", free("w-1", Disk{"/var/lib", "/var", 512 + 399}),
			[]string{"block | disk-space | w-1 (prod.yaml:7:5) | the file system at /var has 911 MiB free, 912 MiB are needed"}},
		{"staged already", func(c *config.Cluster, f *Facts) {
			f.staged("w-1")
			free("w-1", Disk{"/var/lib", "/var", 0})(c, f)
		}, nil},
		{"just enough to install", free("w-1", Disk{"/usr/bin", "/usr", 512 + 200}), nil},
		{"not enough to install", free("w-1", Disk{"/usr/bin", "/usr", 512 + 199}),
			[]string{"block | disk-space | w-1 (prod.yaml:7:5) | the file system at /usr has 711 MiB free, 712 MiB are needed"}},
		{"programs stand elsewhere", free("w-1", Disk{"/usr/local/bin", "/usr/local", 0}), nil},
		{"just enough for images", free("w-1", Disk{"/var/lib/containerd", "/data", 512 + 153}), nil},
		{"not enough for images", free("w-1", Disk{"/var/lib/containerd", "/data", 512 + 152}),
			[]string{"block | disk-space | w-1 (prod.yaml:7:5) | the file system at /data has 664 MiB free, 665 MiB are needed"}},
		{"just enough for all on one disk", free("w-1", Disk{"/var/lib", "/", 512 + 753}, Disk{"/usr/bin", "/", 512 + 753}, Disk{"/var/lib/containerd", "/", 512 + 753}), nil},
		{"not enough for all on one disk", free("w-1", Disk{"/var/lib", "/", 512 + 752}, Disk{"/usr/bin", "/", 512 + 752}, Disk{"/var/lib/containerd", "/", 512 + 752}),
			[]string{"block | disk-space | w-1 (prod.yaml:7:5) | the file system at / has 1264 MiB free, 1265 MiB are needed"}},
		{"not enough for kubeadm's copy of etcd", free("cp-1", Disk{"/etc/kubernetes", "/etc", 512 + 63}),
			[]string{"block | disk-space | cp-1 (prod.yaml:5:5) | the file system at /etc has 575 MiB free, 576 MiB are needed"}},
		{"a worker has no etcd to copy", free("w-1", Disk{"/etc/kubernetes", "/etc", 0}), nil},
		{"etcd is not copied where kubeadm is done", func(c *config.Cluster, f *Facts) {
			f.moved("cp-1", nodeUnit(target))
			free("cp-1", Disk{"/etc/kubernetes", "/etc", 0})(c, f)
		}, nil},
	} {
		tt.run(t)
	}
}

func TestChecksOfArtifacts(t *testing.T) {
	without := func(name string) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) {
			var kept []Artifact
			for _, a := range f.Artifacts.Files {
				if a.Name != name {
					kept = append(kept, a)
				}
			}
			f.Artifacts.Files = kept
		}
	}
	for _, tt := range []finds{
		{"what is wrong with the directory", func(_ *config.Cluster, f *Facts) {
			f.Artifacts.Problems = []string{"SHA256SUMS:3: kubelet has changed"}
		},
			[]string{"block | artifacts-present | prod.yaml:3:12 | SHA256SUMS:3: kubelet has changed"}},
		{"a program is missing", without("kubelet"),
			[]string{"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks kubelet for linux-amd64"}},
		{"an image is missing", without("kube-proxy.tar"),
			[]string{"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image kube-proxy for linux-amd64"}},
		{"kubectl may be missing", without("kubectl"), nil},
		{"no image of an add-on that is not there", func(c *config.Cluster, f *Facts) {
			f.Cluster.ProxyImage, f.Cluster.CoreDNSImage = "", ""
			without("kube-proxy.tar")(c, f)
			without("coredns.tar")(c, f)
		}, nil},
		{"a program is empty", func(_ *config.Cluster, f *Facts) {
			for i, a := range f.Artifacts.Files {
				if a.Name == "kubeadm" {
					f.Artifacts.Files[i].Size = 0
				}
			}
		}, []string{"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks kubeadm for linux-amd64 (it is empty)"}},
		{"a host of another architecture", func(_ *config.Cluster, f *Facts) { f.host("w-1", func(h *Host) { h.Arch = "arm64" }) }, []string{
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image coredns for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image etcd for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image kube-apiserver for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image kube-controller-manager for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image kube-proxy for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image kube-scheduler for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks image pause for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks kubeadm for linux-arm64",
			"block | artifacts-present | prod.yaml:3:12 | v1.36.3 lacks kubelet for linux-arm64",
		}},
		{"a cluster that has arrived needs none", func(c *config.Cluster, f *Facts) {
			*f = seen(c, target)
			f.Artifacts = Artifacts{Problems: []string{"there is no such directory"}}
		}, nil},
		{"a cluster that could not be read may need them", func(_ *config.Cluster, f *Facts) {
			f.Cluster = ClusterFacts{Err: errors.New("no answer")}
			f.Artifacts = Artifacts{Problems: []string{"there is no such directory"}}
		}, []string{
			"block | api-reachable | cluster | its state could not be read: no answer",
			"block | artifacts-present | prod.yaml:3:12 | there is no such directory",
		}},
	} {
		tt.run(t)
	}
}

// Whoever named the directory of one release, not that above it, is told which one to name.
func TestArtifactsNamedTooDeep(t *testing.T) {
	for _, tt := range []struct {
		dir, fix string
		files    []Artifact
	}{
		{"/srv/files", "put the files of v1.36.3 into /srv/files/v1.36.3, with their SHA256SUMS", nil},
		{"/srv/files/v1.36.3", "name the directory above: artifacts: /srv/files", nil},
		{"/srv/files/v1.36.3", "put the files of v1.36.3 into /srv/files/v1.36.3/v1.36.3, with their SHA256SUMS", []Artifact{{Name: "kubeadm"}}},
	} {
		c := cluster(1, 0)
		c.Artifacts = tt.dir
		f := seen(c, old)
		f.Artifacts = Artifacts{Version: target, Files: tt.files, Problems: []string{"something is wrong"}}
		found := Check(c, f)
		if len(found) != 1 || found[0].Fix != tt.fix {
			t.Errorf("%s with %d files: %+v, want the fix %q", tt.dir, len(tt.files), found, tt.fix)
		}
	}
}
