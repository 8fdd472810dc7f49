package steps

import (
	commandline "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

var update = commandline.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", file, d)
	}
}

// render gives one line for each step that the outline lists, with its reason.
func render(o engine.Outline) string {
	var b strings.Builder
	for _, stage := range o.Stages {
		fmt.Fprintf(&b, "[%s] width %d\n", stage.Name, stage.Width)
		for _, lane := range stage.Lanes {
			for _, step := range lane.Steps {
				line := fmt.Sprintf("  %-7s  %-21s  %s", lane.Target, step.Name, step.Why)
				b.WriteString(strings.TrimRight(line, " ") + "\n")
			}
		}
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}

// Plans are made without a session: if planning asked a host, it would crash.
func TestPlans(t *testing.T) {
	// half is where everything of the control plane has arrived and no worker has.
	half := func(c *config.Cluster) Facts {
		f := seen(c, old)
		f.Cluster.KubeadmVersion = target
		for i, h := range controlPlanes(c) {
			unit := nodeUnit(target)
			if i == 0 {
				unit = applyUnit(target)
			}
			f.moved(h.Name, unit)
			f.arrived(h.Name)
		}
		return f
	}
	tests := []struct {
		name  string
		facts func() (*config.Cluster, Facts)
	}{
		{"single-node", func() (*config.Cluster, Facts) {
			c := cluster(1, 0)
			return c, seen(c, old)
		}},
		{"one-and-one", func() (*config.Cluster, Facts) {
			c := cluster(1, 1)
			return c, seen(c, old)
		}},
		{"one-and-two", func() (*config.Cluster, Facts) {
			c := cluster(1, 2)
			c.Workers.Batch = 2
			return c, seen(c, old)
		}},
		{"three-and-two", func() (*config.Cluster, Facts) {
			c := cluster(3, 2)
			return c, seen(c, old)
		}},
		{"patch", func() (*config.Cluster, Facts) {
			c := cluster(1, 1)
			return c, seen(c, "v1.36.1")
		}},
		{"cut-off-after-apply", func() (*config.Cluster, Facts) {
			c := cluster(3, 1)
			f := seen(c, old)
			for _, h := range c.Hosts {
				f.staged(h.Name)
			}
			f.moved("cp-1", applyUnit(target))
			f.Cluster.KubeadmVersion = target
			return c, f
		}},
		{"apply-still-running", func() (*config.Cluster, Facts) {
			c := cluster(3, 1)
			f := seen(c, old)
			for _, h := range c.Hosts {
				f.staged(h.Name)
			}
			f.host("cp-2", func(h *Host) { // where it was begun counts, not which is first
				h.binary("kubeadm", target)
				h.Manifests["etcd"] = manifest("etcd", target)
				h.Kubeadm[applyUnit(target)] = hosts.Record{State: hosts.Running}
			})
			return c, f
		}},
		{"apply-failed-after-its-configuration", func() (*config.Cluster, Facts) {
			c := cluster(3, 0)
			f := seen(c, old)
			f.moved("cp-1", applyUnit(target))
			f.Cluster.KubeadmVersion = target
			f.host("cp-1", func(h *Host) {
				h.Kubeadm[applyUnit(target)] = hosts.Record{State: hosts.Exited, Code: 1, Claimed: true}
			})
			return c, f
		}},
		{"workers-left", func() (*config.Cluster, Facts) {
			c := cluster(3, 2)
			return c, half(c)
		}},
		{"window-left-open", func() (*config.Cluster, Facts) {
			c := cluster(1, 2)
			f := half(c)
			f.arrived("w-1")
			f.arrived("w-2")
			f.opened("w-2")
			return c, f
		}},
		{"open-window-comes-first", func() (*config.Cluster, Facts) {
			c := cluster(1, 3)
			f := half(c)
			f.opened("w-2")
			return c, f
		}},
		{"window-left-open-on-a-control-plane", func() (*config.Cluster, Facts) {
			c := cluster(3, 0)
			f := half(c)
			f.opened("cp-2")
			return c, f
		}},
		{"cordoned-by-somebody-else", func() (*config.Cluster, Facts) {
			c := cluster(3, 1)
			f := seen(c, old)
			f.node("cp-2", func(n *Node) { n.Cordoned = true })
			f.node("w-1", func(n *Node) { n.Cordoned = true })
			return c, f
		}},
		{"kubelet-replaced-not-restarted", func() (*config.Cluster, Facts) {
			c := cluster(1, 1)
			f := half(c)
			f.staged("w-1")
			f.opened("w-1")
			f.arrived("w-1")
			f.node("w-1", func(n *Node) { n.Kubelet = old })
			return c, f
		}},
		{"kubelet-replaced-by-hand", func() (*config.Cluster, Facts) {
			c := cluster(1, 1)
			f := half(c)
			f.host("w-1", func(h *Host) {
				for _, b := range binaries {
					h.binary(b, target)
				}
			})
			return c, f
		}},
		{"old-kubectl-beside-a-new-kubelet", func() (*config.Cluster, Facts) {
			c := cluster(1, 1)
			f := half(c)
			f.arrived("w-1")
			f.host("w-1", func(h *Host) { h.binary("kubectl", old) })
			return c, f
		}},
		{"manifest-put-back-by-hand", func() (*config.Cluster, Facts) {
			c := cluster(3, 1)
			f := half(c)
			f.arrived("w-1")
			f.host("cp-2", func(h *Host) { h.Manifests["kube-scheduler"] = manifest("kube-scheduler", old) })
			return c, f
		}},
		{"newer-etcd", func() (*config.Cluster, Facts) {
			c := cluster(1, 0)
			f := half(c)
			f.host("cp-1", func(h *Host) { h.Manifests["etcd"] = Manifest{Image: "registry.k8s.io/etcd:3.7.0-0"} })
			return c, f
		}},
		{"add-ons-not-rolled-out", func() (*config.Cluster, Facts) {
			c := cluster(1, 1)
			f := half(c)
			f.arrived("w-1")
			f.Cluster.Rollout = "kube-proxy is new on 1 of 2 nodes"
			return c, f
		}},
		{"finished", func() (*config.Cluster, Facts) {
			c := cluster(3, 2)
			f := half(c)
			f.arrived("w-1")
			f.arrived("w-2")
			return c, f
		}},
		{"born-at-the-target", func() (*config.Cluster, Facts) { // no record of any run of kubeadm
			c := cluster(3, 2)
			return c, seen(c, target)
		}},
	}
	named := map[string]bool{}
	for _, tt := range tests {
		named[tt.name+".txt"] = true
		t.Run(tt.name, func(t *testing.T) {
			c, f := tt.facts()
			p := Plan(c, f, nil)
			if err := p.Validate(); err != nil {
				t.Error(err)
			}
			golden(t, filepath.Join("plan", tt.name+".txt"), render(p.Outline(f)))
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "plan"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !named[file.Name()] {
			t.Errorf("testdata/plan/%s belongs to no test", file.Name())
		}
	}
}
