package steps

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// model is a cluster that answers to the steps of real plans, run by the real engine: each step has
// the effect that it has on a real cluster, and each effect is held against the rules of the order.
type model struct {
	t   *testing.T
	rnd *rand.Rand
	c   *config.Cluster

	mu       sync.Mutex
	f        Facts
	pods     map[string]bool // host has pods that a drain would evict
	foreign  map[string]bool // host was cordoned by somebody else
	snapshot bool            // taken in this run
	flaky    bool            // steps fail now and then
	inHand   map[string]bool // hosts that are being moved
}

var errCut = errors.New("cut")

func newModel(t *testing.T, seed uint64) *model {
	rnd := rand.New(rand.NewPCG(seed, 2))
	c := cluster(1+rnd.IntN(4), rnd.IntN(6))
	c.Workers.Batch = 1 + rnd.IntN(3)
	from := []string{old, "v1.36.1"}[rnd.IntN(2)]
	m := &model{t: t, rnd: rnd, c: c, f: seen(c, from), pods: map[string]bool{}, foreign: map[string]bool{}, inHand: map[string]bool{}}
	for _, h := range c.Hosts {
		m.pods[h.Name] = true
		if rnd.IntN(6) == 0 {
			m.foreign[h.Name] = true
			m.f.node(h.Name, func(n *Node) { n.Cordoned = true })
		}
	}
	return m
}

// run plans anew and runs the plan. It gives what was planned and what was begun, by "stage/target".
func (m *model) run(ctx context.Context, stop <-chan struct{}) (planned, begun map[string][]string, err error) {
	m.mu.Lock()
	m.snapshot = false
	f := m.f.clone()
	m.mu.Unlock()
	p := Plan(m.c, f, nil)
	if p.Validate() != nil {
		m.t.Fatal(p.Validate())
	}
	planned, begun = map[string][]string{}, map[string][]string{}
	for _, st := range p.Outline(f).Stages {
		for _, l := range st.Lanes {
			for _, s := range l.Steps {
				planned[st.Name+"/"+l.Target] = append(planned[st.Name+"/"+l.Target], s.Name)
			}
		}
	}
	for _, st := range p {
		for _, l := range st.Lanes {
			for _, part := range [][]step{l.Open, l.Work, l.Close} {
				for i := range part {
					part[i].Run = m.stand(st.Name, l.Target, part[i])
				}
			}
		}
	}
	err = engine.Run(ctx, p, engine.Options[Facts]{
		Stop: stop,
		Observe: func(context.Context, string) (Facts, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.f.clone(), nil
		},
		Emit: func(e engine.Event) {
			if at := e.Stage + "/" + e.Target; e.Kind == engine.Started && e.Step != "" {
				begun[at] = append(begun[at], e.Step)
			}
		},
	})
	return planned, begun, err
}

// stand is what a step does here: time goes by, then its effect is there, unless it fails or is cut.
func (m *model) stand(stage, target string, s step) func(context.Context, Facts, engine.Logf) error {
	return func(ctx context.Context, _ Facts, _ engine.Logf) error {
		m.mu.Lock()
		takes, fails, happens := time.Duration(1+m.rnd.IntN(60))*time.Second, m.flaky && m.rnd.IntN(60) == 0, m.rnd.IntN(2) == 0
		m.enter(stage, target)
		m.mu.Unlock()
		cut := false
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			cut = true
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.inHand, target)
		switch {
		case cut && strings.HasPrefix(s.Name, "upgrade"):
			m.leaveKubeadm(target, s)
			return errCut
		case cut && s.Name == "install-kubelet" && happens: // one program after another
			m.f.host(target, func(h *Host) { h.binary("kubelet", m.f.Target) })
			return errCut
		case cut && happens: // the answer was lost
			m.effect(target, s)
			return errCut
		case cut:
			return errCut
		case fails && s.Name == "drain":
			m.giveBack(target)
			return errors.New("a budget forbids it")
		case fails && s.Name == "upgrade-control-plane":
			m.kubeadm(target, s, hosts.Record{State: hosts.Exited, Code: 1, Claimed: true}, false)
			return errors.New("kubeadm gave up")
		case fails:
			return errors.New("it does not work")
		}
		m.effect(target, s)
		return nil
	}
}

// enter holds how many hosts may be in hand at once.
func (m *model) enter(stage, target string) {
	if target == wholeCluster || stage == "stage" {
		return
	}
	m.inHand[target] = true
	cps, nodes := 0, 0
	for name := range m.inHand {
		if m.f.Hosts[name].Role == config.ControlPlane {
			cps++
		} else {
			nodes++
		}
	}
	if cps > 1 || cps == 1 && nodes > 0 || nodes > m.c.Workers.Batch {
		m.t.Errorf("%v are in hand at once, with a batch of %d", m.inHand, m.c.Workers.Batch)
	}
}

func (m *model) must(good bool, format string, args ...any) {
	if !good {
		m.t.Errorf(format, args...)
	}
}

// effect is what the cluster is like after a step.
func (m *model) effect(target string, s step) {
	f, h, node := m.f, m.f.Hosts[target], m.f.Node(target)
	emptied := node.Cordoned && node.Window != "" && !m.pods[target]
	switch s.Name {
	case "take-snapshot":
		m.snapshot = true
	case "stage-files":
		f.host(target, func(h *Host) {
			for _, a := range staging(f, *h) {
				h.Staged[a.stagedAt(f.Target)] = h.Staged[a.stagedAt(f.Target)] || a.Images == nil
			}
		})
	case "import-images":
		f.host(target, func(h *Host) {
			for _, a := range staging(f, *h) {
				for _, image := range a.Images {
					h.Images[image] = true
				}
			}
		})
	case "install-kubeadm":
		m.must(len(h.Staged) > 0, "kubeadm is installed on %s, but nothing is staged there", target)
		f.host(target, func(h *Host) { h.binary("kubeadm", f.Target) })
	case "upgrade-control-plane", "upgrade-node":
		m.kubeadm(target, s, hosts.Record{State: hosts.Exited, Claimed: true}, true)
	case "cordon":
		f.node(target, func(n *Node) {
			if n.Window == "" {
				n.Window = drain.Cordoned
				if n.Cordoned {
					n.Window = drain.FoundCordoned
				}
			}
			n.Cordoned = true
		})
		m.outOfService()
	case "drain":
		m.must(node.Cordoned && node.Window != "", "%s is drained without a window", target)
		m.pods[target] = false
	case "install-kubelet":
		m.must(emptied, "the kubelet of %s is replaced with pods on it", target)
		m.must(len(h.Staged) > 0, "a kubelet is installed on %s, but nothing is staged there", target)
		f.host(target, func(h *Host) {
			for _, b := range []string{"kubelet", "kubectl", "crictl"} {
				h.binary(b, f.Target)
			}
		})
	case "carry-changes":
		m.must(emptied, "the kubelet's files on %s are changed with pods on it", target)
		m.f.host(target, func(h *Host) {
			h.Instance = h.Instance || f.Target >= "v1.37"
			h.System.Units = map[string]hosts.SystemUnit{"kubelet.service": {}}
		})
	case "restart-kubelet":
		m.must(emptied, "the kubelet of %s is restarted with pods on it", target)
		m.must(h.Binaries["kubelet"].Version == f.Target, "an old kubelet is restarted on %s", target)
		m.kubeadmCame(target)
		f.node(target, func(n *Node) { n.Kubelet = f.Target })
	case "uncordon":
		m.must(node.Kubelet == f.Target, "%s is given back with kubelet %s", target, node.Kubelet)
		m.release(target)
	case "remove-staged":
		f.host(target, func(h *Host) { h.Staged = map[string]bool{} })
	case "await-control-planes", "await-control-plane", "await-etcd", "hand-over-etcd", "await-endpoints", "await-node",
		"await-static-pods", "await-workloads", "await-add-ons":
	default:
		m.t.Errorf("nobody knows what %s does", s.Name)
	}
}

// kubeadmCame holds that a kubelet is never newer than an API server, and comes after kubeadm on its host.
func (m *model) kubeadmCame(target string) {
	for _, cp := range controlPlanes(m.c) {
		h := m.f.Hosts[cp.Name]
		m.must(h.APIVersion == m.f.Target, "the kubelet of %s comes before the API server of %s", target, cp.Name)
	}
	if h := m.f.Hosts[target]; h.Role == config.Worker {
		record := h.Kubeadm[nodeUnit(m.f.Target)]
		m.must(record.State == hosts.Exited && record.Code == 0, "the kubelet of %s comes before its configuration", target)
	} else {
		m.must(needsControlPlane(m.f, target) == "", "the kubelet of %s comes before its static pods", target)
	}
}

// kubeadm is a run of kubeadm on a host, with the given record; whole or cut short somewhere.
func (m *model) kubeadm(target string, s step, record hosts.Record, whole bool) {
	apply, worker := strings.Contains(s.Does, "kubeadm upgrade apply"), m.f.Hosts[target].Role == config.Worker
	unit := nodeUnit(m.f.Target)
	if apply {
		unit = applyUnit(m.f.Target)
	}
	m.must(m.f.Hosts[target].Binaries["kubeadm"].Version == m.f.Target, "an old kubeadm runs on %s", target)
	m.must(worker || m.snapshot, "the control plane %s moves without a snapshot", target)
	m.must(apply || m.f.Cluster.KubeadmVersion == m.f.Target, "kubeadm upgrade node runs on %s before apply", target)
	moved := len(controlPlaneComponents)
	if !whole {
		moved = m.rnd.IntN(moved + 1)
	}
	m.f.host(target, func(h *Host) {
		h.Kubeadm[unit] = record
		if worker {
			return
		}
		for _, component := range controlPlaneComponents[:moved] {
			h.Manifests[component] = manifest(component, m.f.Target)
		}
		if moved > 1 { // etcd comes first
			h.APIVersion = m.f.Target
		}
	})
	if apply && (whole || moved == len(controlPlaneComponents) && m.rnd.IntN(2) == 0) {
		m.f.Cluster.KubeadmVersion = m.f.Target
	}
}

// leaveKubeadm is a run of kubeadm that nobody watches any more: it ends by itself, well or not, or
// with a reboot of the host.
func (m *model) leaveKubeadm(target string, s step) {
	switch m.rnd.IntN(4) {
	case 0: // was never started
	case 1:
		m.kubeadm(target, s, hosts.Record{State: hosts.Exited}, true)
	case 2:
		m.kubeadm(target, s, hosts.Record{State: hosts.Exited, Code: 1}, false)
	case 3:
		m.kubeadm(target, s, hosts.Record{State: hosts.Interrupted}, false)
	}
}

// giveBack is what a failed drain does.
func (m *model) giveBack(target string) {
	if needsRestart(m.f, target) != "" && needsBinary(m.f, target, "kubelet") == "" {
		return
	}
	m.release(target)
}

func (m *model) release(target string) {
	m.f.node(target, func(n *Node) { n.Cordoned, n.Window = n.Window == drain.FoundCordoned, "" })
	m.pods[target] = true
}

// outOfService holds that not more nodes are in a window of ours than may be.
func (m *model) outOfService() {
	count := map[string]int{}
	for _, h := range m.c.Hosts {
		if m.f.Node(h.Name).Window != "" {
			count[h.Role]++
		}
	}
	m.must(count[config.ControlPlane] <= 1 && count[config.Worker] <= m.c.Workers.Batch,
		"%v nodes are out of service, with a batch of %d", count, m.c.Workers.Batch)
}
