package steps

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/hosts"
)

// arrived holds that the cluster is where it should be, and as it was found otherwise.
func (m *model) arrived() {
	m.t.Helper()
	if p := Plan(m.c, m.f, nil); len(p) > 0 {
		m.t.Errorf("a plan is left:\n%s", render(p.Outline(m.f)))
	}
	for _, h := range m.c.Hosts {
		seen, n := m.f.Hosts[h.Name], m.f.Node(h.Name)
		if n.Cordoned != m.foreign[h.Name] || n.Window != "" {
			m.t.Errorf("%s is left %+v, cordoned by somebody else: %v", h.Name, n, m.foreign[h.Name])
		}
		if len(seen.Staged) > 0 {
			m.t.Errorf("%s still has %d staged files", h.Name, len(seen.Staged))
		}
		for _, b := range binaries {
			if v := seen.Binaries[b].Version; v != m.f.Target {
				m.t.Errorf("%s of %s is %s", b, h.Name, v)
			}
		}
	}
}

func TestAPlanDoesWhatItSays(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				planned, begun, err := m.run(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(planned, begun); d != "" {
					t.Errorf("planned and performed (-planned +performed):\n%s", d)
				}
				m.arrived()
				if planned, begun, err := m.run(t.Context(), nil); err != nil || len(planned)+len(begun) > 0 {
					t.Errorf("a second run plans %v, performs %v, and ends with %v", planned, begun, err)
				}
			})
		})
	}
}

// Wherever runs fail, are stopped or killed, the next one goes on, by the same rules, and ends in the
// same state.
func TestAnyRunGoesOnFromAnywhere(t *testing.T) {
	cut := map[string]int{}
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				for range 1 + m.rnd.IntN(6) {
					ctx, cancel := context.WithCancelCause(t.Context())
					stop := make(chan struct{})
					after := time.Duration(m.rnd.IntN(3600)) * time.Second
					how := []string{"failed", "stopped", "killed"}[m.rnd.IntN(3)]
					m.flaky = how == "failed"
					timer := time.AfterFunc(after, func() {
						switch how {
						case "stopped":
							close(stop)
						case "killed":
							cancel(errCut)
						}
					})
					_, _, err := m.run(ctx, stop)
					timer.Stop()
					cancel(nil)
					if err != nil {
						cut[how]++
					}
					if found := Check(m.c, m.f); Blocked(found) {
						t.Errorf("after a run that was %s, this keeps the next one from going on: %q", how, lines(found))
					}
					if m.flaky && m.rnd.IntN(3) == 0 {
						m.reboot()
					}
				}
				m.flaky = false
				if _, _, err := m.run(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				m.arrived()
			})
		})
	}
	for _, how := range []string{"failed", "stopped", "killed"} {
		if cut[how] < 50 {
			t.Errorf("%d runs were %s: the test no longer sees that", cut[how], how)
		}
	}
}

// reboot brings a random host back without its pods' leftovers: nothing of it is in the facts but
// what a disk keeps, so nothing changes. Images may have been collected by the kubelet meanwhile.
func (m *model) reboot() {
	name := m.c.Hosts[m.rnd.IntN(len(m.c.Hosts))].Name
	m.f.host(name, func(h *Host) { h.Images = map[string]bool{} })
}

// The control plane where apply was begun is the one where it is run again, first in line.
func TestApplyStaysWhereItBegan(t *testing.T) {
	c := cluster(3, 0)
	for _, record := range []hosts.Record{
		{State: hosts.Running}, {State: hosts.Interrupted}, {State: hosts.Exited, Code: 1},
	} {
		f := seen(c, old)
		f.host("cp-3", func(h *Host) { h.Kubeadm[applyUnit(target)] = record })
		if got := applyHost(c, f); got != "cp-3" {
			t.Errorf("with a record %s, %d apply runs on %q, want cp-3", record.State, record.Code, got)
		}
		var order []string
		for _, l := range controlPlaneLanes(c, f, nil) {
			order = append(order, l.Target)
		}
		if !slices.Equal(order, []string{"cp-3", "cp-1", "cp-2"}) {
			t.Errorf("the order is %v", order)
		}
	}
}
