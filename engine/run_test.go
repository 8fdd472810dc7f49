package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRunTellsEverythingInOrder(t *testing.T) {
	w := newWorld("a/two")
	chatty := instead(w.change("a", "three"), func(_ context.Context, _ facts, log Logf) error {
		log("%d of %d", 1, 2)
		w.set("a/three", true)
		return nil
	})
	p := Plan[facts]{
		{Name: "s", Width: 1, Lanes: []Lane[facts]{{
			Target: "a",
			Open:   []Step[facts]{w.gate("a", "await-start")},
			Work:   []Step[facts]{w.change("a", "one"), w.change("a", "two"), chatty},
			Close:  []Step[facts]{w.gate("a", "await-end")},
		}}},
		{Name: "empty", Width: 1},
	}
	got, err := w.run(t, p)
	if err != nil {
		t.Fatal(err)
	}
	started := at(Started, "a", "one")
	started.Text = "one is old"
	third := at(Started, "a", "three")
	third.Text = "three is old"
	line := at(Progress, "a", "three")
	line.Text = "1 of 2"
	compare(t, []Event{
		at(Started, "", ""),
		at(Started, "a", ""),
		at(Started, "a", "await-start"), at(Done, "a", "await-start"),
		started, at(Done, "a", "one"),
		at(Skipped, "a", "two"),
		third, line, at(Done, "a", "three"),
		at(Started, "a", "await-end"), at(Done, "a", "await-end"),
		at(Done, "a", ""),
		at(Done, "", ""),
		{Kind: Started, Stage: "empty"}, {Kind: Done, Stage: "empty"},
	}, got)
}

func TestEventsCarryTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slow := instead(w.gate("a", "await-x"), func(context.Context, facts, Logf) error {
			time.Sleep(time.Minute)
			return nil
		})
		began := time.Now()
		events, err := w.run(t, one(1, Lane[facts]{Target: "a", Work: []Step[facts]{slow}}))
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		for _, e := range events {
			got = append(got, e.Time.Sub(began))
		}
		want := []time.Duration{0, 0, 0, time.Minute, time.Minute, time.Minute}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("times (-want +got):\n%s", d)
		}
	})
}

// Close has a step that is due although work is done in the second row: a window that was left open.
func TestOpenAndClose(t *testing.T) {
	tests := []struct {
		name string
		done []string
		want []string // what runs
	}{
		{"work is due", nil, []string{"a/cordon", "a/drain", "a/install", "a/await-node", "a/uncordon"}},
		{"a window was left open", []string{"a/cordon", "a/install"}, []string{"a/await-node", "a/uncordon"}},
		{"the window is open, work is due", []string{"a/cordon"}, []string{"a/drain", "a/install", "a/await-node", "a/uncordon"}},
		{"all is done", []string{"a/cordon", "a/install", "a/uncordon"}, nil},
		{"nothing but the opening is missing", []string{"a/install", "a/uncordon"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.done...)
			events, err := w.run(t, one(1, Lane[facts]{
				Target: "a",
				Open:   []Step[facts]{w.change("a", "cordon"), w.gate("a", "drain")},
				Work:   []Step[facts]{w.change("a", "install")},
				Close:  []Step[facts]{w.gate("a", "await-node"), w.change("a", "uncordon")},
			}))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, w.ran); d != "" {
				t.Errorf("ran (-want +got):\n%s", d)
			}
			if tt.want == nil {
				compare(t, []Event{at(Started, "", ""), at(Skipped, "a", ""), at(Done, "", "")}, events)
			}
		})
	}
}

// The step's own run makes its need go away, and with it the next step's: facts are read anew.
func TestFactsAreReadAgainAfterAStep(t *testing.T) {
	w := newWorld()
	both := instead(w.change("a", "one"), func(context.Context, facts, Logf) error {
		w.set("a/one", true)
		w.set("a/two", true)
		return nil
	})
	var given facts
	last := instead(w.gate("a", "await-x"), func(_ context.Context, f facts, _ Logf) error {
		given = f
		return nil
	})
	events, err := w.run(t, one(1, Lane[facts]{Target: "a", Work: []Step[facts]{both, w.change("a", "two"), last}}))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, []Event{
		at(Started, "a", ""),
		{Kind: Started, Stage: "s", Target: "a", Step: "one", Text: "one is old"}, at(Done, "a", "one"),
		at(Skipped, "a", "two"),
		at(Started, "a", "await-x"), at(Done, "a", "await-x"),
		at(Done, "a", ""),
	}, of("a", events))
	if d := cmp.Diff(facts{"a/one": true, "a/two": true}, given); d != "" {
		t.Errorf("facts given to the last step (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"a", "a"}, w.read); d != "" { // at the start, after step one; a gate proves nothing
		t.Errorf("facts read (-want +got):\n%s", d)
	}
}

func TestALaneGoesByFactsOfItsOwnStart(t *testing.T) {
	w := newWorld()
	elsewhere := instead(w.change("a", "one"), func(context.Context, facts, Logf) error {
		w.set("a/one", true)
		w.set("b/one", true)
		return nil
	})
	_, err := w.run(t, one(1,
		Lane[facts]{Target: "a", Work: []Step[facts]{elsewhere}},
		Lane[facts]{Target: "b", Work: []Step[facts]{w.change("b", "one")}},
	))
	if err != nil || len(w.ran) > 0 {
		t.Errorf("error %v, ran %q, want b skipped: it was done before its turn came", err, w.ran)
	}
}

func TestWithoutEffectIsAnError(t *testing.T) {
	w := newWorld()
	idle := instead(w.change("a", "install"), func(context.Context, facts, Logf) error { return nil })
	events, err := w.run(t, one(1, Lane[facts]{Target: "a", Work: []Step[facts]{idle, w.change("a", "restart")}}))
	if !errors.Is(err, ErrNoEffect) {
		t.Errorf("error is %v, want ErrNoEffect", err)
	}
	if want := "a: install: ran, but did not take effect: install is old"; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
	compare(t, []Event{
		at(Started, "a", ""),
		{Kind: Started, Stage: "s", Target: "a", Step: "install", Text: "install is old"},
		{Kind: Failed, Stage: "s", Target: "a", Step: "install", Err: ErrNoEffect},
		{Kind: Failed, Stage: "s", Target: "a", Err: ErrNoEffect},
	}, of("a", events))
	if len(w.ran) > 0 {
		t.Errorf("%q ran after the failure", w.ran)
	}
}

func TestAFailedStepEndsLaneStageAndPlan(t *testing.T) {
	w := newWorld()
	p := one(1,
		Lane[facts]{Target: "a", Work: []Step[facts]{fails(w.change("a", "one")), w.change("a", "two")},
			Close: []Step[facts]{w.change("a", "uncordon")}},
		Lane[facts]{Target: "b", Work: []Step[facts]{w.change("b", "one")}},
	)
	p = append(p, Stage[facts]{Name: "later", Width: 1, Lanes: []Lane[facts]{{Target: "a", Work: []Step[facts]{w.change("a", "three")}}}})
	events, err := w.run(t, p)
	if err == nil || err.Error() != "a: one: broken" || !errors.Is(err, errBroken) {
		t.Errorf("error is %v, want target and step once", err)
	}
	compare(t, []Event{
		at(Started, "", ""),
		at(Started, "a", ""),
		{Kind: Started, Stage: "s", Target: "a", Step: "one", Text: "one is old"},
		{Kind: Failed, Stage: "s", Target: "a", Step: "one", Err: errBroken},
		{Kind: Failed, Stage: "s", Target: "a", Err: errBroken},
		at(Pending, "b", ""),
		{Kind: Failed, Stage: "s", Err: errBroken},
		{Kind: Pending, Stage: "later"},
	}, events)
	if len(w.ran) > 0 {
		t.Errorf("%q ran after the failure", w.ran)
	}
}

func TestLanesInFlightRunToTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slow := func(target string) Step[facts] {
			return instead(w.change(target, "one"), func(context.Context, facts, Logf) error {
				time.Sleep(time.Hour)
				w.set(target+"/one", true)
				return nil
			})
		}
		events, err := w.run(t, one(3,
			Lane[facts]{Target: "a", Work: []Step[facts]{fails(w.change("a", "one"))}},
			Lane[facts]{Target: "b", Work: []Step[facts]{slow("b")}, Close: []Step[facts]{w.gate("b", "await-b")}},
			Lane[facts]{Target: "c", Work: []Step[facts]{slow("c"), fails(w.change("c", "two"))}},
			Lane[facts]{Target: "d", Work: []Step[facts]{w.change("d", "one")}},
		))
		if want := "a: one: broken\nc: two: broken"; err == nil || err.Error() != want {
			t.Errorf("error is\n%v\nwant\n%s", err, want)
		}
		compare(t, []Event{
			at(Started, "b", ""),
			{Kind: Started, Stage: "s", Target: "b", Step: "one", Text: "one is old"}, at(Done, "b", "one"),
			at(Started, "b", "await-b"), at(Done, "b", "await-b"),
			at(Done, "b", ""),
		}, of("b", events))
		compare(t, []Event{at(Pending, "d", "")}, of("d", events))
	})
}

func TestFactsThatCannotBeReadEndTheLane(t *testing.T) {
	lost := errors.New("connection lost")
	tests := []struct {
		name string
		read int // the reading that fails, from 1
		want string
		ran  int
	}{
		{"at the start", 1, "a: read facts: connection lost", 0},
		{"after a step", 2, "a: one: ran, but could not be proven: read facts: connection lost", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			reads := 0
			var r recorder
			err := Run(t.Context(), one(1, Lane[facts]{Target: "a", Work: []Step[facts]{w.change("a", "one"), w.change("a", "two")}}), Options[facts]{
				Emit: r.emit,
				Observe: func(ctx context.Context, target string) (facts, error) {
					if reads++; reads == tt.read {
						return nil, lost
					}
					return w.observe(ctx, target)
				},
			})
			if !errors.Is(err, lost) || err.Error() != tt.want {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
			if len(w.ran) != tt.ran {
				t.Errorf("ran %q, want %d steps", w.ran, tt.ran)
			}
			last := r.events[len(r.events)-2]
			compare(t, []Event{{Kind: Failed, Stage: "s", Target: "a", Err: lost}}, []Event{last})
		})
	}
}

// A panic is the failure of one step: what other lanes are doing must not be cut.
func TestAPanicIsAFailure(t *testing.T) {
	bang := func(context.Context, facts, Logf) error { panic("index out of range") }
	w := newWorld()
	alarming := w.change("a", "one")
	alarming.Needs = func(facts) string { panic("no such host") }
	tests := []struct {
		name, want string
		step       Step[facts]
		observe    func(context.Context, string) (facts, error)
	}{
		{"in a run", "a: one: panic: index out of range\n", instead(w.change("a", "one"), bang), nil},
		{"in a need", "a: panic: no such host\n", alarming, nil},
		{"in reading facts", "a: read facts: panic: nil map\n", w.change("a", "one"),
			func(context.Context, string) (facts, error) { panic("nil map") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observe := w.observe
				if tt.observe != nil {
					observe = func(ctx context.Context, target string) (facts, error) {
						if target == "a" {
							return tt.observe(ctx, target)
						}
						return w.observe(ctx, target)
					}
				}
				ended := false
				slow := instead(w.gate("b", "await-b"), func(context.Context, facts, Logf) error {
					time.Sleep(time.Second)
					ended = true
					return nil
				})
				var r recorder
				err := Run(t.Context(), one(2,
					Lane[facts]{Target: "a", Work: []Step[facts]{tt.step}},
					Lane[facts]{Target: "b", Work: []Step[facts]{slow}},
				), Options[facts]{Observe: observe, Emit: r.emit})
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) || !strings.Contains(err.Error(), "run_test.go") {
					t.Errorf("error is %v, want %q and where it was", err, tt.want)
				}
				failed := of("a", r.events)
				if len(failed) == 0 || failed[len(failed)-1].Kind != Failed || failed[len(failed)-1].Step != "" {
					t.Errorf("events of a are %v, want the lane's failure last", failed)
				}
				if !ended {
					t.Error("the other lane did not come to its end")
				}
			})
		})
	}
}

func TestAnInvalidPlanRunsNothing(t *testing.T) {
	w := newWorld()
	events, err := w.run(t, Plan[facts]{
		{Name: "good", Width: 1, Lanes: []Lane[facts]{{Target: "a", Work: []Step[facts]{w.change("a", "one")}}}},
		{Name: "bad", Width: 0},
	})
	if err == nil || len(events) > 0 || len(w.ran) > 0 || len(w.read) > 0 {
		t.Errorf("error %v, events %v, ran %q, read %q, want an error and nothing else", err, events, w.ran, w.read)
	}
}

func TestAnEmptyPlanIsDone(t *testing.T) {
	w := newWorld()
	if events, err := w.run(t, nil); err != nil || len(events) > 0 {
		t.Errorf("error %v, events %v, want neither", err, events)
	}
}

func TestRunningAgainIsResuming(t *testing.T) {
	w := newWorld()
	broken := true
	flaky := w.change("b", "two")
	cure := flaky.Run
	flaky.Run = func(ctx context.Context, f facts, log Logf) error {
		if broken {
			return errBroken
		}
		return cure(ctx, f, log)
	}
	p := one(1,
		Lane[facts]{Target: "a", Work: []Step[facts]{w.change("a", "one")}},
		Lane[facts]{Target: "b", Work: []Step[facts]{w.change("b", "one"), flaky}},
		Lane[facts]{Target: "c", Work: []Step[facts]{w.change("c", "one")}},
	)
	if _, err := w.run(t, p); !errors.Is(err, errBroken) {
		t.Fatalf("error is %v", err)
	}
	broken = false
	for range 2 { // the second time there is nothing left
		if _, err := w.run(t, p); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"a/one", "b/one", "b/two", "c/one"}, w.ran); d != "" {
		t.Errorf("steps of all three runs (-want +got):\n%s", d)
	}
}

func TestProgressTextIsFormattedOnce(t *testing.T) {
	w := newWorld()
	percent := instead(w.gate("a", "await-x"), func(_ context.Context, _ facts, log Logf) error {
		log("%s", "100% done %s")
		return fmt.Errorf("at 50%%: %w", errBroken)
	})
	events, err := w.run(t, one(1, Lane[facts]{Target: "a", Work: []Step[facts]{percent}}))
	if err == nil || err.Error() != "a: await-x: at 50%: broken" {
		t.Errorf("error is %v", err)
	}
	if got := events[3]; got.Kind != Progress || got.Text != "100% done %s" {
		t.Errorf("progress is %+v", got)
	}
}
