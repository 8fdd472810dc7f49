package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A lane is entered before its facts are read, and left once, however it ends.
func TestLanesAreEnteredAndLeft(t *testing.T) {
	tests := []struct {
		name string
		lane func(*world) Lane[facts]
		want []string
	}{
		{"done", func(w *world) Lane[facts] { return Lane[facts]{Target: "a", Work: []Step[facts]{w.change("a", "one")}} },
			[]string{"enter a", "a/one", "leave a"}},
		{"nothing to do", func(w *world) Lane[facts] {
			w.set("a/one", true)
			return Lane[facts]{Target: "a", Work: []Step[facts]{w.change("a", "one")}}
		}, []string{"enter a", "leave a"}},
		{"failed", func(w *world) Lane[facts] {
			return Lane[facts]{Target: "a", Work: []Step[facts]{fails(w.gate("a", "one"))}}
		}, []string{"enter a", "leave a"}},
		{"panicked in a need", func(w *world) Lane[facts] {
			s := w.change("a", "one")
			s.Needs = func(facts) string { panic("no facts") }
			return Lane[facts]{Target: "a", Work: []Step[facts]{s}}
		}, []string{"enter a", "leave a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			_ = Run(t.Context(), one(1, tt.lane(w)), Options[facts]{
				Observe: w.observe, Emit: func(Event) {},
				Enter: func(ctx context.Context, target string) (context.Context, func(), error) {
					if len(w.read) > 0 {
						t.Error("facts were read before the lane was entered")
					}
					w.note("enter " + target)
					return ctx, func() { w.note("leave " + target) }, nil
				},
			})
			if d := cmp.Diff(tt.want, w.ran); d != "" {
				t.Errorf("what happened (-want +got):\n%s", d)
			}
		})
	}
}

// A lane that may not start does nothing, and no further one starts.
func TestALaneThatMayNotStart(t *testing.T) {
	w := newWorld()
	locked := errors.New("locked by another")
	var events []Event
	err := Run(t.Context(), one(1,
		Lane[facts]{Target: "a", Work: []Step[facts]{w.change("a", "one")}},
		Lane[facts]{Target: "b", Work: []Step[facts]{w.change("b", "one")}},
	), Options[facts]{
		Observe: w.observe, Emit: func(e Event) { events = append(events, e) },
		Enter: func(context.Context, string) (context.Context, func(), error) { return nil, nil, locked },
	})
	if !errors.Is(err, locked) || err.Error() != "a: locked by another" || len(w.ran)+len(w.read) > 0 {
		t.Errorf("error %v, ran %q, read %q", err, w.ran, w.read)
	}
	failed := false
	for _, e := range events {
		failed = failed || e.Kind == Failed && e.Target == "a" && errors.Is(e.Err, locked)
	}
	if !failed {
		t.Errorf("no event says that a failed: %+v", events)
	}
}

// A lane whose context ends goes no further, whatever it is in the middle of; the others do not mind.
func TestALaneThatIsEnded(t *testing.T) {
	w := newWorld()
	lost := errors.New("another has taken the host")
	end := map[string]context.CancelCauseFunc{}
	waits := func(s Step[facts]) Step[facts] {
		return instead(s, func(ctx context.Context, _ facts, _ Logf) error {
			end["a"](lost)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}
	err := Run(t.Context(), one(1,
		Lane[facts]{Target: "a", Work: []Step[facts]{waits(w.gate("a", "one")), w.change("a", "two")}, Close: []Step[facts]{w.gate("a", "three")}},
	), Options[facts]{
		Observe: w.observe, Emit: func(Event) {},
		Enter: func(ctx context.Context, target string) (context.Context, func(), error) {
			ctx, end[target] = context.WithCancelCause(ctx)
			return ctx, func() {}, nil
		},
	})
	if !errors.Is(err, lost) || len(w.ran) > 0 {
		t.Errorf("error %v, ran %q", err, w.ran)
	}
}
