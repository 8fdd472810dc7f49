package sim

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/steps"
)

type (
	plan = engine.Plan[steps.Facts]
	step = engine.Step[steps.Facts]
)

// edit changes the lanes of a plan, by stage.
func edit(p plan, change func(stage *engine.Stage[steps.Facts], lane *engine.Lane[steps.Facts])) {
	for i := range p {
		for j := range p[i].Lanes {
			change(&p[i], &p[i].Lanes[j])
		}
	}
}

// without takes steps out of a plan, by the beginning of their names.
func without(prefixes ...string) Change {
	gone := func(s step) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s.Name, p) })
	}
	return func(_ *World, _ *steps.Session, rung *steps.Rung) {
		edit(rung.Plan, func(_ *engine.Stage[steps.Facts], l *engine.Lane[steps.Facts]) {
			l.Open, l.Work, l.Close = slices.DeleteFunc(l.Open, gone), slices.DeleteFunc(l.Work, gone), slices.DeleteFunc(l.Close, gone)
		})
	}
}

// withWidth runs so many lanes of a stage at once.
func withWidth(name string, width int) Change {
	return func(_ *World, _ *steps.Session, rung *steps.Rung) {
		for i := range rung.Plan {
			if rung.Plan[i].Name == name {
				rung.Plan[i].Width = width
			}
		}
	}
}

// all makes one change of several.
func all(changes ...Change) Change {
	return func(w *World, s *steps.Session, rung *steps.Rung) {
		for _, c := range changes {
			c(w, s, rung)
		}
	}
}

func withoutSnapshot(_ *World, _ *steps.Session, rung *steps.Rung) {
	rung.Plan = slices.DeleteFunc(rung.Plan, func(s engine.Stage[steps.Facts]) bool { return s.Name == "snapshot" })
}

// workersFirst is for whoever takes the order for a detail.
func workersFirst(_ *World, _ *steps.Session, rung *steps.Rung) {
	at := slices.IndexFunc(rung.Plan, func(s engine.Stage[steps.Facts]) bool { return s.Name == "control-plane kubelets" })
	to := slices.IndexFunc(rung.Plan, func(s engine.Stage[steps.Facts]) bool { return s.Name == "control plane" })
	if at > to && to >= 0 {
		rung.Plan[at], rung.Plan[to] = rung.Plan[to], rung.Plan[at]
	}
}

// careless uncordons whatever it finds cordoned.
func careless(w *World, _ *steps.Session, rung *steps.Rung) {
	edit(rung.Plan, func(_ *engine.Stage[steps.Facts], l *engine.Lane[steps.Facts]) {
		for i := range l.Close {
			if l.Close[i].Name != "uncordon" {
				continue
			}
			node, run := "node-"+l.Target, l.Close[i].Run
			l.Close[i].Run = func(ctx context.Context, f steps.Facts, log engine.Logf) error {
				if err := w.patch("/api/v1/nodes/"+node, `{"spec":{"unschedulable":null}}`); err != nil {
					return err
				}
				return run(ctx, f, log)
			}
		}
	})
}

// eager restarts every kubelet once more, to be sure.
func eager(_ *World, s *steps.Session, rung *steps.Rung) {
	edit(rung.Plan, func(_ *engine.Stage[steps.Facts], l *engine.Lane[steps.Facts]) {
		for _, st := range l.Close {
			if st.Name == "remove-staged" && l.Target != "cp-1" {
				again := steps.RestartKubelet(s, l.Target)
				again.Name, again.Needs = "restart-again", nil
				l.Open = append([]step{again}, l.Open...)
			}
		}
	})
}

// hasty takes the proofs away, and everything that waits.
var hasty = without("await-", "hand-over")

// sabotage is a kuberung that is broken on purpose.
type sabotage struct {
	name   string
	change Change
	caught string // by this invariant
	// shows leaves out clusters on which it does no harm; nil: there are none.
	shows func(Shape) bool
}

func manyControlPlanes(s Shape) bool { return s.ControlPlanes > 1 }

// sabotages has one at least for each invariant.
var sabotages = []sabotage{
	{"two control planes at once", withWidth("control plane", 2), oneControlPlane, manyControlPlanes},
	{"two kubelets of control planes at once", withWidth("control-plane kubelets", 2), oneControlPlane, manyControlPlanes},
	{"more workers than allowed", withWidth("workers", 3), outOfService, func(s Shape) bool { return s.Workers > s.Batch }},
	{"no snapshot", withoutSnapshot, snapshotFirst, nil},
	{"kubelets before API servers", all(workersFirst, hasty), kubeletSkew, nil},
	{"uncordons what others cordoned", careless, foreignCordon, func(s Shape) bool { return len(s.Foreign) > 0 }},
	{"a step that nobody was shown", eager, asPlanned, func(s Shape) bool { return s.Workers > 0 }},
	{"no drain", without("drain"), drainedFirst, func(s Shape) bool { return s.Workers > 0 }},
	{"images are left to luck", without("import-images"), imagesFirst, nil},
	{"never uncordons", without("uncordon", "await-workloads"), ownCordon, nil},
	{"waits for nothing", hasty, etcdQuorum, func(s Shape) bool { return manyControlPlanes(s) && s.Seed > 40 }},
	{"leaves its files behind", without("remove-staged"), converges, nil},
}

// caughtWithin is how many schedules an invariant has, to catch what it is there for.
const caughtWithin = 1000

func TestEveryBrokenKuberungIsCaught(t *testing.T) {
	for _, b := range sabotages {
		t.Run(b.name, func(t *testing.T) {
			for n := range caughtWithin {
				s := newSchedule(uint64(n) + 1)
				if b.shows != nil && !b.shows(s.shape) {
					continue
				}
				s.patience = 4
				p := playOne(t, s, b.change)
				for _, line := range p.w.Broken() {
					if strings.HasPrefix(line, b.caught+": ") {
						t.Logf("caught by schedule %d: %s", n+1, line)
						return
					}
				}
			}
			t.Errorf("not caught by %q in %d schedules", b.caught, caughtWithin)
		})
	}
}

func TestEveryInvariantIsKnownToFail(t *testing.T) {
	for _, name := range Invariants() {
		if !slices.ContainsFunc(sabotages, func(b sabotage) bool { return b.caught == name }) {
			t.Errorf("no broken kuberung shows that %q can fail", name)
		}
	}
}
