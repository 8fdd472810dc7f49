package engine

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidate(t *testing.T) {
	ok := func(name string) Step[facts] {
		return Step[facts]{Name: name, Does: "do it", Run: func(context.Context, facts, Logf) error { return nil }}
	}
	with := func(target string, steps ...Step[facts]) Lane[facts] { return Lane[facts]{Target: target, Work: steps} }
	tests := []struct {
		name string
		plan Plan[facts]
		want string
	}{
		{"empty", nil, ""},
		{"good", Plan[facts]{
			{Name: "a", Width: 1, Lanes: []Lane[facts]{with("x", ok("one"), ok("two")), with("y", ok("one"))}},
			{Name: "b", Width: 9, Lanes: []Lane[facts]{with("x", ok("one"))}},
		}, ""},
		{"stage without a name", Plan[facts]{{Width: 1}}, `stage "": name is missing or used twice`},
		{"two stages of one name", Plan[facts]{{Name: "a", Width: 1}, {Name: "a", Width: 1}}, `stage "a": name is missing or used twice`},
		{"no width", Plan[facts]{{Name: "a"}}, `stage "a": width is 0, need at least 1`},
		{"negative width", Plan[facts]{{Name: "a", Width: -1}}, `stage "a": width is -1, need at least 1`},
		{"lane without a target", one(1, with("")), `stage "s": target "" is missing or used twice`},
		{"two lanes of one target", one(1, with("x"), with("x")), `stage "s": target "x" is missing or used twice`},
		{"step without a name", one(1, with("x", ok(""))), `stage "s": x: step "": name is missing or used twice`},
		{"two steps of one name", one(1, with("x", ok("one"), ok("one"))), `stage "s": x: step "one": name is missing or used twice`},
		{"one name in two parts of a lane", one(1, Lane[facts]{Target: "x", Open: []Step[facts]{ok("one")}, Close: []Step[facts]{ok("one")}}),
			`stage "s": x: step "one": name is missing or used twice`},
		{"step without Run", one(1, with("x", Step[facts]{Name: "one", Does: "do it"})), `stage "s": x: step "one": needs both Does and Run`},
		{"step without Does", one(1, with("x", Step[facts]{Name: "one", Run: ok("one").Run})), `stage "s": x: step "one": needs both Does and Run`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.plan.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
}

// threeStages has a lane with a window, one without, and a stage of nothing.
func threeStages(w *world) Plan[facts] {
	return Plan[facts]{
		{Name: "nodes", Width: 2, Lanes: []Lane[facts]{
			{
				Target: "a",
				Open:   []Step[facts]{w.change("a", "cordon"), w.gate("a", "drain")},
				Work:   []Step[facts]{w.change("a", "install"), w.change("a", "restart")},
				Close:  []Step[facts]{w.gate("a", "await-node"), w.change("a", "uncordon")},
			},
			{Target: "b", Work: []Step[facts]{w.change("b", "install")}},
		}},
		{Name: "none", Width: 1},
		{Name: "end", Width: 1, Lanes: []Lane[facts]{{Target: "cluster", Work: []Step[facts]{w.gate("cluster", "await-dns")}}}},
	}
}

func TestPruneAndOutline(t *testing.T) {
	w := newWorld()
	end := OutlineStage{Name: "end", Width: 1, Lanes: []OutlineLane{
		{Target: "cluster", Steps: []OutlineStep{{Name: "await-dns", Does: "wait for await-dns"}}},
	}}
	due := func(name string) OutlineStep { return OutlineStep{name, "do " + name, name + " is old"} }
	always := func(name string) OutlineStep { return OutlineStep{name, "wait for " + name, ""} }
	tests := []struct {
		name string
		f    facts
		want []OutlineStage
	}{
		{"nothing is done", facts{}, []OutlineStage{
			{Name: "nodes", Width: 2, Lanes: []OutlineLane{
				{Target: "a", Steps: []OutlineStep{due("cordon"), always("drain"), due("install"), due("restart"), always("await-node"), due("uncordon")}},
				{Target: "b", Steps: []OutlineStep{due("install")}},
			}}, end}},
		{"half is done", facts{"a/install": true, "b/install": true}, []OutlineStage{
			{Name: "nodes", Width: 2, Lanes: []OutlineLane{
				{Target: "a", Steps: []OutlineStep{due("cordon"), always("drain"), due("restart"), always("await-node"), due("uncordon")}},
			}}, end}},
		{"a window is open", facts{"a/cordon": true, "a/install": true, "a/restart": true, "b/install": true}, []OutlineStage{
			{Name: "nodes", Width: 2, Lanes: []OutlineLane{
				{Target: "a", Steps: []OutlineStep{always("await-node"), due("uncordon")}},
			}}, end}},
		{"all is done", facts{"a/install": true, "a/restart": true, "a/uncordon": true, "b/install": true}, []OutlineStage{end}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := threeStages(w)
			if d := cmp.Diff(Outline{tt.want}, p.Outline(tt.f)); d != "" {
				t.Errorf("outline (-want +got):\n%s", d)
			}
			var want, got []string
			for _, stage := range tt.want {
				for _, lane := range stage.Lanes {
					want = append(want, stage.Name+"/"+lane.Target)
				}
			}
			for _, stage := range p.Prune(tt.f) {
				for _, lane := range stage.Lanes {
					got = append(got, stage.Name+"/"+lane.Target)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("pruned (-want +got):\n%s", d)
			}
			if len(p[0].Lanes) != 2 || len(p) != 3 {
				t.Error("the plan itself was changed")
			}
			if len(w.ran)+len(w.read) > 0 {
				t.Errorf("a preview ran %q and read %q", w.ran, w.read)
			}
		})
	}
}

// An empty outline is an empty list, not null, for those who read it as JSON.
func TestAnEmptyOutlineHasStages(t *testing.T) {
	if got := (Plan[facts]{}).Outline(nil); got.Stages == nil {
		t.Error("stages are nil")
	}
}

// What closes a window is planned with what opens it, although it is not due yet: the node is not
// cordoned when the plan is made.
func TestOutlineHasTheEndOfAWindow(t *testing.T) {
	w := newWorld()
	uncordon := w.gate("a", "uncordon")
	uncordon.Needs = func(f facts) string {
		if f["a/cordoned"] {
			return "it is cordoned"
		}
		return ""
	}
	l := Lane[facts]{Target: "a", Open: []Step[facts]{w.gate("a", "cordon")}, Work: []Step[facts]{w.change("a", "install")}, Close: []Step[facts]{uncordon}}
	var got []string
	for _, s := range l.Steps(facts{}) {
		got = append(got, s.Name)
	}
	if d := cmp.Diff([]string{"cordon", "install", "uncordon"}, got); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if got := l.Steps(facts{"a/install": true}); got != nil {
		t.Errorf("steps are %v, want none: nothing is due", got)
	}
}
