package steps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// Where a cluster stands decides which rungs are left; where nothing is to be had for one, its minor stands alone.
func TestWay(t *testing.T) {
	all := []string{"v1.37.2", "v1.36.4", target, "v1.35.6", old, "v1.34.7", "v1.34.4"}
	kubelet := func(f *Facts, host, version string) {
		f.node(host, func(n *Node) { n.Kubelet = version })
		f.host(host, func(h *Host) { h.binary("kubelet", version) })
	}
	api := func(f *Facts, host, version string) {
		f.host(host, func(h *Host) {
			h.APIVersion = version
			for _, component := range controlPlaneComponents {
				h.Manifests[component] = manifest(component, version)
			}
		})
	}
	tests := []struct {
		name   string
		to     string
		shelf  []string
		change func(*config.Cluster, *Facts)
		want   string
	}{
		{"one minor", "v1.35.4", all, nil, "v1.35.4"},
		{"a patch", "v1.34.7", all, nil, "v1.34.7"},
		{"arrived", "v1.34.4", all, nil, "v1.34.4"},
		{"three minors, each the newest patch", "v1.37.2", all, nil, "v1.35.6 v1.36.4 v1.37.2"},
		{"a middle one is missing", "v1.37.2", []string{"v1.36.4"}, nil, "1.35? v1.36.4 v1.37.2"},
		{"a newer one is not whole", "v1.37.2", all, func(_ *config.Cluster, f *Facts) {
			for i, a := range f.Shelf {
				switch a.Version {
				case "v1.36.4":
					f.Shelf[i].Problems = []string{"SHA256SUMS:1: kubelet has changed"}
				case "v1.35.6":
					f.Shelf[i].Files = a.Files[1:] // no kubeadm
				}
			}
		}, "v1.35.4 v1.36.3 v1.37.2"},
		{"nothing is for the architecture of a worker", "v1.36.3", all, func(_ *config.Cluster, f *Facts) {
			f.host("w-1", func(h *Host) { h.Arch = "riscv64" })
		}, "1.35? v1.36.3"},

		{"begun with an older patch", "v1.36.3", all, func(_ *config.Cluster, f *Facts) { api(f, "cp-1", old) }, "v1.35.4 v1.36.3"},
		{"begun with one that is gone", "v1.36.3", all, func(_ *config.Cluster, f *Facts) { api(f, "cp-1", "v1.35.5") }, "v1.35.6 v1.36.3"},
		{"begun with one newer than all", "v1.36.3", all, func(_ *config.Cluster, f *Facts) { api(f, "cp-1", "v1.35.9") }, "1.35? v1.36.3"},
		{"only one static pod has moved", "v1.36.3", all, func(_ *config.Cluster, f *Facts) {
			f.host("cp-2", func(h *Host) { h.Manifests["kube-apiserver"] = manifest("kube-apiserver", old) })
		}, "v1.35.4 v1.36.3"},
		{"begun, and nothing has moved yet", "v1.36.3", all, func(_ *config.Cluster, f *Facts) {
			f.host("cp-1", func(h *Host) { h.Kubeadm[applyUnit(old)] = hosts.Record{State: hosts.Running} })
		}, "v1.35.4 v1.36.3"},
		{"failed before anything moved", "v1.36.3", all, func(_ *config.Cluster, f *Facts) {
			f.host("cp-1", func(h *Host) { h.Kubeadm[applyUnit(old)] = hosts.Record{State: hosts.Exited, Code: 1} })
		}, "v1.35.6 v1.36.3"},
		{"begun in the target's minor with another patch", "v1.35.6", all, func(_ *config.Cluster, f *Facts) { api(f, "cp-1", old) }, "v1.35.6"},

		{"a worker is behind", "v1.35.4", all, func(_ *config.Cluster, f *Facts) { kubelet(f, "w-1", "v1.33.9") }, "v1.34.4 v1.35.4"},
		{"a worker is behind, and nothing there for a rung of its own", "v1.35.4", all[:4],
			func(_ *config.Cluster, f *Facts) { kubelet(f, "w-1", "v1.33.9") }, "v1.35.4"},
		{"a worker is so far behind that it must move first", "v1.35.4", all[:4],
			func(_ *config.Cluster, f *Facts) { kubelet(f, "w-1", "v1.31.9") }, "1.34? v1.35.4"},
		{"a worker is behind and may wait", "v1.35.4", all, func(c *config.Cluster, f *Facts) {
			c.Workers.Climb = config.Once
			kubelet(f, "w-1", "v1.33.9")
		}, "v1.35.4"},
		{"a worker is behind and in hand", "v1.35.4", all, func(c *config.Cluster, f *Facts) {
			c.Workers.Climb = config.Once
			kubelet(f, "w-1", "v1.33.9")
			f.opened("w-1")
		}, "v1.34.4 v1.35.4"},
		{"a control plane's kubelet is behind", "v1.35.4", all, func(c *config.Cluster, f *Facts) {
			c.Workers.Climb = config.Once
			kubelet(f, "cp-2", "v1.33.9")
		}, "v1.34.4 v1.35.4"},
		{"a window was left open on a node that has arrived", "v1.35.4", all, func(_ *config.Cluster, f *Facts) { f.opened("w-1") }, "v1.34.4 v1.35.4"},
		{"a window was left open, and there is nothing for its rung", "v1.35.4", all[:4], func(_ *config.Cluster, f *Facts) { f.opened("w-1") }, "v1.35.4"},
		{"a kubelet's older patch is no rung", "v1.35.4", all, func(_ *config.Cluster, f *Facts) { kubelet(f, "w-1", "v1.34.1") }, "v1.35.4"},
		{"the cluster is newer", "v1.33.9", all, nil, "v1.33.9"},
		{"the cluster could not be asked", "v1.36.3", all, func(_ *config.Cluster, f *Facts) { f.Cluster = ClusterFacts{Err: os.ErrNotExist} }, "v1.36.3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := climber(2, 1, tt.to, config.EachRung)
			f := seen(c, "v1.34.4")
			for _, v := range tt.shelf {
				f.Shelf = append(f.Shelf, files(v))
			}
			if tt.change != nil {
				tt.change(c, &f)
			}
			var got []string
			for _, h := range way(c, f) {
				if h.version == "" {
					h.version = fmt.Sprintf("1.%d?", h.minor)
				}
				got = append(got, h.version)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("the way is %s, want %s", got, tt.want)
			}
			first := strings.Fields(tt.want)[0]
			if f = Aim(c, f); f.Target != first && (!strings.HasSuffix(first, "?") || f.Target != tt.to) {
				t.Errorf("the facts are pointed at %s", f.Target)
			}
			if f.Cluster.Err == nil && f.Artifacts.Version != f.Target {
				t.Errorf("the artifacts are of %q for %s", f.Artifacts.Version, f.Target)
			}
		})
	}
}

// What is missing or broken for any rung is told before the first.
func TestChecksOfEveryRung(t *testing.T) {
	shelf := func(to, climb string, versions ...string) func(*config.Cluster, *Facts) {
		return func(c *config.Cluster, f *Facts) {
			c.Target, c.Workers.Climb = to, climb
			*f = climbing(c, "v1.34.4", versions...)
		}
	}
	all := shelf("v1.37.2", config.EachRung, target, old)
	lead := "block | artifacts-present | prod.yaml:3:12 | the way from v1.34.4 to v1.37.2 leads over v1.%s: kubeadm moves one minor at a time, and there is no whole v1.%s release"
	missing := func(minor string) string { return strings.ReplaceAll(lead, "%s", minor) }
	for _, tt := range []finds{
		{"all is there", all, nil},
		{"a middle rung is missing", shelf("v1.37.2", config.EachRung, old), []string{missing("36")}},
		{"two are", shelf("v1.37.2", config.EachRung), []string{missing("35"), missing("36")}},
		{"the one there is lacks a program", func(c *config.Cluster, f *Facts) {
			all(c, f)
			f.Shelf[0].Files = f.Shelf[0].Files[1:]
		}, []string{missing("36") + "; v1.36.3 lacks kubeadm for linux-amd64"}},
		{"the last one is broken", func(c *config.Cluster, f *Facts) {
			all(c, f)
			f.Shelf[2].Problems = []string{"SHA256SUMS:7: etcd.tar has changed"}
		}, []string{"block | artifacts-present | prod.yaml:3:12 | SHA256SUMS:7: etcd.tar has changed"}},
		{"a newer one is passed over", func(c *config.Cluster, f *Facts) {
			shelf("v1.37.2", config.EachRung, "v1.36.4", target, old)(c, f)
			f.Shelf[0].Problems = []string{"SHA256SUMS:7: etcd.tar has changed"}
		}, []string{"warn  | artifacts-present | prod.yaml:3:12 | v1.36.4 is not whole, so the way leads over v1.36.3: SHA256SUMS:7: etcd.tar has changed"}},
		{"etcd would be too old for the last", func(c *config.Cluster, f *Facts) {
			all(c, f)
			f.Cluster.Etcd.Oldest = "3.6.5"
		}, []string{"block | etcd-may-move | cluster | when it is time for v1.37.2: etcd is 3.6.8, and must be 3.6.11 before it goes to 3.7.1-0 (https://etcd.io/docs/v3.7/upgrades/upgrade_3_7/)"}},
		{"room for one rung, not for the next", func(c *config.Cluster, f *Facts) {
			all(c, f)
			f.host("w-1", func(h *Host) { h.Free = []Disk{{"/var/lib", "/var", (512 + 401) << 20}} })
		}, []string{
			"block | disk-space | w-1 (prod.yaml:7:5) | when it is time for v1.36.3: the file system at /var has 713 MiB free, 912 MiB are needed",
			"block | disk-space | w-1 (prod.yaml:7:5) | when it is time for v1.37.2: the file system at /var has 513 MiB free, 912 MiB are needed",
		}},
		{"a worker that waits needs the room once", func(c *config.Cluster, f *Facts) {
			shelf("v1.37.2", config.Once, target, old)(c, f)
			f.host("w-1", func(h *Host) { h.Free = []Disk{{"/var/lib", "/var", (512 + 401) << 20}} })
		}, nil},
		{"a drain of a worker that waits is not looked at yet", func(c *config.Cluster, f *Facts) {
			shelf("v1.37.2", config.Once, target, old)(c, f)
			f.Cluster.Drains[nodeName("w-1")] = Drain{Refused: []drain.Refusal{shell}}
		}, nil},
		{"API servers two minors apart", func(c *config.Cluster, f *Facts) {
			f.host("cp-2", func(h *Host) { h.APIVersion = "v1.34.4" })
			f.host("cp-1", func(h *Host) { h.APIVersion = target })
			f.Shelf = append(f.Shelf, files(old))
			for _, h := range []string{"cp-1", "cp-2", "w-1"} {
				f.node(h, func(n *Node) { n.Kubelet = "v1.34.4" })
				f.host(h, func(h *Host) { h.binary("kubelet", "v1.34.4") })
			}
		}, []string{"block | versions-in-skew | cluster | API servers of v1.34 and of v1.36 are beside each other: more than one minor apart"}},
		{"what a skipped minor would change cannot be told", func(c *config.Cluster, f *Facts) {
			f.node("w-1", func(n *Node) { n.Kubelet = "v1.34.4" })
			f.host("w-1", func(h *Host) {
				h.binary("kubelet", "v1.34.4")
				h.System.Units = map[string]hosts.SystemUnit{"kubelet.service": {Files: map[string]hosts.File{kubeadmFlags: {Err: "cat: I/O error"}}}}
			})
		}, []string{"block | versions-in-skew | w-1 (prod.yaml:7:5) | it skips a minor, and what that would change in /var/lib/kubelet/kubeadm-flags.env could not be told: cat: I/O error"}},
		{"over minors that are known", func(c *config.Cluster, f *Facts) {
			f.node("w-1", func(n *Node) { n.Kubelet = "v1.33.9" })
			f.host("w-1", func(h *Host) { h.binary("kubelet", "v1.33.9") })
		}, nil},
	} {
		tt.run(t)
	}
}

// Of each minor no more is read than decides which release the rung has.
func TestTheShelfIsReadAsFarAsNeeded(t *testing.T) {
	c := climber(1, 1, "v1.37.2", config.EachRung)
	c.Artifacts = t.TempDir()
	for _, dir := range []string{"v1.33.9", "v1.35.4", "v1.35.6", "v1.36.3", "v1.36.4-rc.1", "v1.36", "1.36.9", "v1.37.1", "v1.37.2", "v1.38.0", "notes"} {
		if err := os.MkdirAll(filepath.Join(c.Artifacts, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := Open(c, nil)
	defer s.Close()
	if d := cmp.Diff([]string{"v1.37.2", "v1.36.3", "v1.35.6", "v1.35.4", "v1.33.9"}, s.releases()); d != "" {
		t.Errorf("releases (-want +got):\n%s", d)
	}
	whole := files("v1.35.6")
	s.artifacts = map[string]Artifacts{"v1.35.6": whole} // as if it had been read
	f := seen(c, "v1.34.4")
	var got []string
	for _, a := range s.loadShelf(f) {
		got = append(got, a.Version)
	}
	if d := cmp.Diff([]string{"v1.37.2", "v1.35.6", "v1.36.3"}, got); d != "" {
		t.Errorf("what was read (-want +got):\n%s", d)
	}
	if _, read := s.artifacts["v1.35.4"]; read {
		t.Error("v1.35.4 was read, although v1.35.6 is whole")
	}
	for _, h := range controlPlanes(c) { // what was begun is read first, and is enough
		f.host(h.Name, func(h *Host) { h.APIVersion = old })
	}
	s.artifacts["v1.35.4"] = files(old)
	got = nil
	for _, a := range s.loadShelf(f) {
		got = append(got, a.Version)
	}
	if d := cmp.Diff([]string{"v1.37.2", old, "v1.36.3"}, got); d != "" {
		t.Errorf("what was read after a beginning (-want +got):\n%s", d)
	}
}
