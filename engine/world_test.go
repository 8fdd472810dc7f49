package engine

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// facts is what steps decide on in these tests: what is done, by "target/step".
type facts map[string]bool

// world is what steps change and facts are read from.
type world struct {
	mu   sync.Mutex
	done facts
	ran  []string // steps in the order in which they ran
	read []string // targets in the order in which facts were read
}

func newWorld(done ...string) *world {
	w := &world{done: facts{}}
	for _, d := range done {
		w.done[d] = true
	}
	return w
}

func (w *world) observe(_ context.Context, target string) (facts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = append(w.read, target)
	return maps.Clone(w.done), nil
}

func (w *world) set(what string, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[what] = done
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, what)
}

// change is a step with a need, which its run fulfils.
func (w *world) change(target, name string) Step[facts] {
	what := target + "/" + name
	return Step[facts]{
		Name: name, Does: "do " + name,
		Needs: func(f facts) string {
			if f[what] {
				return ""
			}
			return name + " is old"
		},
		Run: func(context.Context, facts, Logf) error {
			w.note(what)
			w.set(what, true)
			return nil
		},
	}
}

// gate is a step without a need.
func (w *world) gate(target, name string) Step[facts] {
	return Step[facts]{
		Name: name, Does: "wait for " + name,
		Run: func(context.Context, facts, Logf) error {
			w.note(target + "/" + name)
			return nil
		},
	}
}

// instead gives the step another run.
func instead(s Step[facts], run func(context.Context, facts, Logf) error) Step[facts] {
	s.Run = run
	return s
}

var errBroken = errors.New("broken")

func fails(s Step[facts]) Step[facts] {
	return instead(s, func(context.Context, facts, Logf) error { return errBroken })
}

// recorder keeps the events of a run.
type recorder struct{ events []Event }

func (r *recorder) emit(e Event) { r.events = append(r.events, e) }

// run runs a plan against the world and gives its events.
func (w *world) run(t *testing.T, p Plan[facts]) ([]Event, error) {
	t.Helper()
	var r recorder
	err := Run(t.Context(), p, Options[facts]{Observe: w.observe, Emit: r.emit})
	return r.events, err
}

// compare holds events against what is wanted, but for their times. Errors are equal if they match
// with errors.Is or say the same.
func compare(t *testing.T, want, got []Event) {
	t.Helper()
	same := cmp.Comparer(func(a, b error) bool {
		return errors.Is(a, b) || errors.Is(b, a) || a != nil && b != nil && a.Error() == b.Error()
	})
	timeless := cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Time" }, cmp.Ignore())
	if d := cmp.Diff(want, got, same, timeless); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// of gives the events of one target, in order.
func of(target string, events []Event) []Event {
	var found []Event
	for _, e := range events {
		if e.Target == target {
			found = append(found, e)
		}
	}
	return found
}

// one is a plan of one stage.
func one(width int, lanes ...Lane[facts]) Plan[facts] {
	return Plan[facts]{{Name: "s", Width: width, Lanes: lanes}}
}

// at is an event of a step in the stage of one.
func at(kind Kind, target, step string) Event {
	return Event{Kind: kind, Stage: "s", Target: target, Step: step}
}
