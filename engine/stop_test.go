package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// node is a lane in which each step takes a minute. Its window is open from cordon to uncordon.
func (w *world) node(target string) Lane[facts] {
	slow := func(s Step[facts]) Step[facts] {
		run := s.Run
		return instead(s, func(ctx context.Context, f facts, log Logf) error {
			select {
			case <-time.After(time.Minute):
				return run(ctx, f, log)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	uncordon := w.change(target, "uncordon")
	uncordon.Needs = func(f facts) string {
		if f[target+"/cordon"] && !f[target+"/uncordon"] {
			return "it is cordoned"
		}
		return ""
	}
	return Lane[facts]{
		Target: target,
		Open:   []Step[facts]{slow(w.gate(target, "await-start")), slow(w.change(target, "cordon")), slow(w.gate(target, "drain"))},
		Work:   []Step[facts]{slow(w.change(target, "install")), slow(w.change(target, "restart"))},
		Close:  []Step[facts]{slow(w.gate(target, "await-node")), slow(uncordon)},
	}
}

// interrupted runs the plan and calls act after so long.
func (w *world) interrupted(ctx context.Context, p Plan[facts], stop chan struct{}, after time.Duration, act func()) ([]Event, error) {
	if after == 0 {
		act()
	} else {
		timer := time.AfterFunc(after, act)
		defer timer.Stop()
	}
	var r recorder
	err := Run(ctx, p, Options[facts]{Observe: w.observe, Emit: r.emit, Stop: stop})
	return r.events, err
}

// A stop lets a lane come to its end whose window is open or whose work has begun, and ends one that
// only made ready.
func TestStop(t *testing.T) {
	whole := []string{"a/await-start", "a/cordon", "a/drain", "a/install", "a/restart", "a/await-node", "a/uncordon"}
	minutes := func(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }
	tests := []struct {
		name  string
		after time.Duration
		done  []string
		ran   []string
		last  Event // of a
	}{
		{"before anything", 0, nil, nil, at(Pending, "a", "")},
		{"while it waits for its turn", minutes(0.5), nil, whole[:1], at(Pending, "a", "cordon")},
		{"while it cordons", minutes(1.5), nil, whole, at(Done, "a", "")},
		{"while it drains", minutes(2.5), nil, whole, at(Done, "a", "")},
		{"while it installs", minutes(3.5), nil, whole, at(Done, "a", "")},
		{"while it restarts", minutes(4.5), nil, whole, at(Done, "a", "")},
		{"while it proves", minutes(5.5), nil, whole, at(Done, "a", "")},
		{"while it uncordons", minutes(6.5), nil, whole, at(Done, "a", "")},
		{"while it closes a window that was left", minutes(0.5), []string{"a/cordon", "a/install", "a/restart"},
			[]string{"a/await-node", "a/uncordon"}, at(Done, "a", "")},
		{"while it goes on in a window that was left", minutes(0.5), []string{"a/cordon", "a/install"},
			[]string{"a/await-start", "a/drain", "a/restart", "a/await-node", "a/uncordon"}, at(Done, "a", "")},
		{"while it makes ready for what is left of its work", minutes(0.5), []string{"a/install"},
			[]string{"a/await-start"}, at(Pending, "a", "cordon")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(tt.done...)
				stop := make(chan struct{})
				events, err := w.interrupted(t.Context(), one(1, w.node("a"), w.node("b")), stop, tt.after, func() { close(stop) })
				if err != ErrStopped {
					t.Errorf("error is %v, want ErrStopped itself: nothing else went wrong", err)
				}
				if d := cmp.Diff(tt.ran, w.ran); d != "" {
					t.Errorf("ran (-want +got):\n%s", d)
				}
				ofA := of("a", events)
				compare(t, []Event{tt.last}, ofA[len(ofA)-1:])
				compare(t, []Event{at(Pending, "b", "")}, of("b", events))
				compare(t, []Event{{Kind: Failed, Stage: "s", Err: ErrStopped}}, events[len(events)-1:])
			})
		})
	}
}

// A stop while the facts of a lane are read: what they show decides whether it is begun at all.
func TestStopWhileFactsAreRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		done []string
		ran  []string
	}{
		{"nothing was begun", nil, nil},
		{"its window is open", []string{"a/cordon", "a/install"}, []string{"a/await-start", "a/drain", "a/restart", "a/await-node", "a/uncordon"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(tt.done...)
				stop := make(chan struct{})
				timer := time.AfterFunc(time.Second, func() { close(stop) })
				defer timer.Stop()
				err := Run(t.Context(), one(1, w.node("a"), w.node("b")), Options[facts]{
					Stop: stop,
					Emit: func(Event) {},
					Observe: func(ctx context.Context, target string) (facts, error) {
						<-time.After(time.Minute)
						return w.observe(ctx, target)
					},
				})
				if err != ErrStopped {
					t.Errorf("error is %v, want ErrStopped itself", err)
				}
				if d := cmp.Diff(tt.ran, w.ran); d != "" {
					t.Errorf("ran (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestStopNamesItselfOnceForSeveralLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stop := make(chan struct{})
		lanes := []Lane[facts]{w.node("a"), w.node("b"), w.node("c")}
		_, err := w.interrupted(t.Context(), one(2, lanes...), stop, time.Second, func() { close(stop) })
		if err != ErrStopped {
			t.Errorf("error is %q, want %q", err, ErrStopped)
		}
	})
}

func TestStopBesideAFailureTellsBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stop := make(chan struct{})
		a, b := w.node("a"), w.node("b")
		a.Open[0] = fails(a.Open[0]) // before b has its window
		_, err := w.interrupted(t.Context(), one(2, a, b), stop, time.Second, func() { close(stop) })
		if !errors.Is(err, errBroken) || !errors.Is(err, ErrStopped) || err.Error() != "a: await-start: broken\nstopped, work remains" {
			t.Errorf("error is %q, want the failure and the stop", err)
		}
	})
}

func TestStopAfterTheLastLaneIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stop := make(chan struct{})
		_, err := w.interrupted(t.Context(), one(1, w.node("a")), stop, 270*time.Second, func() { close(stop) })
		if err != nil {
			t.Errorf("error is %v: all the work was done", err)
		}
	})
}

func TestCancelEndsRunningStepsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		began := time.Now()
		events, err := w.interrupted(ctx, one(1, w.node("a"), w.node("b")), nil, 150*time.Second, func() { cancel(interrupted) })
		if took := time.Since(began); took != 150*time.Second {
			t.Errorf("it took %v, want the time of the cancel", took)
		}
		if !errors.Is(err, interrupted) || err.Error() != "a: drain: interrupted" {
			t.Errorf("error is %v, want the cause", err)
		}
		if d := cmp.Diff([]string{"a/await-start", "a/cordon"}, w.ran); d != "" {
			t.Errorf("ran (-want +got):\n%s", d)
		}
		compare(t, []Event{at(Pending, "b", "")}, of("b", events))
	})
}

// A step that does not care for its context ends as it likes; nothing comes after it.
func TestNothingStartsAfterACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		stubborn := instead(w.gate("a", "await-x"), func(context.Context, facts, Logf) error {
			time.Sleep(time.Minute)
			return nil
		})
		lane := Lane[facts]{Target: "a", Work: []Step[facts]{stubborn, w.change("a", "one")}, Close: []Step[facts]{w.change("a", "uncordon")}}
		events, err := w.interrupted(ctx, one(1, lane), nil, time.Second, func() { cancel(interrupted) })
		if !errors.Is(err, interrupted) {
			t.Errorf("error is %v, want the cause", err)
		}
		compare(t, []Event{
			at(Started, "a", ""), at(Started, "a", "await-x"), at(Done, "a", "await-x"), at(Pending, "a", "one"),
		}, of("a", events))
		if len(w.ran) > 0 {
			t.Errorf("%q ran after the cancel", w.ran)
		}
	})
}

func TestACancelledContextRunsNothing(t *testing.T) {
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var r recorder
	err := Run(ctx, one(1, w.node("a")), Options[facts]{Observe: w.observe, Emit: r.emit})
	if !errors.Is(err, context.Canceled) || len(w.ran)+len(w.read) > 0 {
		t.Errorf("error %v, ran %q, read %q", err, w.ran, w.read)
	}
}

// A lane without a window, whose work is all there is, runs to its end once some of it ran.
func TestStopOfALaneWithoutAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a/one")
		stop := make(chan struct{})
		slow := instead(w.change("a", "two"), func(context.Context, facts, Logf) error {
			time.Sleep(time.Minute)
			w.set("a/two", true)
			return nil
		})
		lane := Lane[facts]{Target: "a", Work: []Step[facts]{w.change("a", "one"), slow, w.change("a", "three")}}
		_, err := w.interrupted(t.Context(), one(1, lane), stop, time.Second, func() { close(stop) })
		if err != nil || len(w.ran) != 1 {
			t.Errorf("error %v, ran %q, want the step after it as well", err, w.ran)
		}
	})
}
