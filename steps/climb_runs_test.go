package steps

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// withFlags puts kubeadm's flags for the kubelet on every host.
func (f Facts) withFlags(text string) {
	for name := range f.Hosts {
		f.host(name, func(h *Host) {
			h.System.Units = map[string]hosts.SystemUnit{"kubelet.service": {
				Files: map[string]hosts.File{kubeadmFlags: {Text: text}},
			}}
		})
	}
}

const oldFlags = `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/x.sock --pod-infra-container-image=registry.k8s.io/pause:3.10"
`

// What was planned for a later rung before the first is what is planned when its time has come, and what is done.
func TestPredictedPlansArePlannedAndPerformed(t *testing.T) {
	carried, waited := 0, 0
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				m.c.Target = []string{"v1.35.6", "v1.36.3", "v1.37.2"}[m.rnd.IntN(3)]
				m.c.Workers.Climb = []string{config.EachRung, config.Once}[m.rnd.IntN(2)]
				m.f = climbing(m.c, "v1.34.4", "v1.36.4", "v1.36.3", "v1.35.6", "v1.35.4", "v1.34.4")
				m.f.withFlags(oldFlags)
				m.foreign = map[string]bool{}
				climb := Climb(m.c, m.f.clone(), nil)
				for i, rung := range climb {
					if i > 0 {
						m.f = Aim(m.c, m.f)
					}
					if m.f.Target != rung.To {
						t.Fatalf("rung %d leads to %s, planned was %s", i+1, m.f.Target, rung.To)
					}
					if d := cmp.Diff(rung.Plan.Outline(rung.Facts), Plan(m.c, m.f, nil).Outline(m.f)); d != "" {
						t.Errorf("rung %d as predicted and as planned (-predicted +planned):\n%s", i+1, d)
					}
					if found := Check(m.c, m.f); Blocked(found) {
						t.Fatalf("before rung %d: %q", i+1, lines(found))
					}
					planned, begun, err := m.run(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					if d := cmp.Diff(planned, begun); d != "" {
						t.Errorf("rung %d (-planned +performed):\n%s", i+1, d)
					}
					for _, names := range begun {
						for _, name := range names {
							if name == "carry-changes" {
								carried++
							}
						}
					}
					waited += len(rung.Waiting)
				}
				if m.f.Target != m.c.Target {
					t.Errorf("the climb ends at %s", m.f.Target)
				}
				m.arrived()
			})
		})
	}
	if carried < 20 || waited < 20 {
		t.Errorf("%d times changes were carried and %d times a worker waited: the test no longer sees that", carried, waited)
	}
}

// Whatever a step is needed for is gone once its effect is foretold.
func TestEffectsMeetNeeds(t *testing.T) {
	for _, climb := range []string{config.EachRung, config.Once} {
		c := climber(3, 2, "v1.37.2", climb)
		f := climbing(c, "v1.34.4", "v1.36.3", "v1.35.4")
		f.withFlags(oldFlags)
		f.Cluster.Rollout = "CoreDNS is on its way"
		before := f.clone().copied()
		for _, rung := range Climb(c, f, nil) {
			next := after(c, rung.Facts, rung.Plan)
			if left := Plan(c, next, nil); len(left) > 0 {
				t.Errorf("%s: after %s is left\n%s", climb, rung.To, render(left.Outline(next)))
			}
			if next.Cluster.Rollout != "" || next.Cluster.ProxyImage != "registry.k8s.io/kube-proxy:"+rung.To {
				t.Errorf("%s: after %s the add-ons are %q, %q", climb, rung.To, next.Cluster.ProxyImage, next.Cluster.Rollout)
			}
		}
		if d := cmp.Diff(before.Hosts, f.copied().Hosts); d != "" {
			t.Errorf("foretelling has changed what was observed:\n%s", d)
		}
	}
}

// Wherever a climb is killed, also with another mind about its workers the next time, it goes on and ends at the target.
func TestAnyClimbGoesOnFromAnywhere(t *testing.T) {
	killed := 0
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				m.c.Target = []string{"v1.36.3", "v1.37.2"}[m.rnd.IntN(2)]
				m.f = climbing(m.c, "v1.34.4", "v1.36.4", "v1.36.3", "v1.35.6", "v1.35.4", "v1.34.4")
				m.foreign = map[string]bool{}
				for range m.rnd.IntN(8) {
					m.c.Workers.Climb = []string{config.EachRung, config.Once}[m.rnd.IntN(2)]
					m.f = Aim(m.c, m.f)
					ctx, cancel := context.WithCancelCause(t.Context())
					timer := time.AfterFunc(time.Duration(m.rnd.IntN(3600))*time.Second, func() { cancel(errCut) })
					if _, _, err := m.run(ctx, nil); err != nil {
						killed++
					}
					timer.Stop()
					cancel(nil)
					m.f = Aim(m.c, m.f)
					if found := Check(m.c, m.f); Blocked(found) {
						t.Fatalf("this keeps the next run from going on: %q", lines(found))
					}
				}
				for rungs := 0; m.f.Target != m.c.Target || rungs == 0; rungs++ {
					if m.f = Aim(m.c, m.f); rungs > 4 {
						t.Fatalf("still on the way to %s", m.f.Target)
					}
					if _, _, err := m.run(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				m.arrived()
			})
		})
	}
	if killed < 100 {
		t.Errorf("%d runs were killed: the test no longer sees that", killed)
	}
}
