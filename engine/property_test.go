package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// schedule is one random run: a plan whose steps take random times and sometimes fail, perhaps
// stopped or cancelled on the way.
type schedule struct {
	*world
	rnd    *rand.Rand
	plan   Plan[facts]
	broken bool // some steps fail, until mended
	begun  time.Time

	mu      sync.Mutex
	touched map[string]int // readings and runs in flight, by target
	most    int            // most targets touched at once
	spans   []span
}

// span is one reading of facts (step "") or run of a step, since the beginning.
type span struct {
	target, step string
	from, to     time.Duration
}

func newSchedule(seed uint64) *schedule {
	s := &schedule{world: newWorld(), rnd: rand.New(rand.NewPCG(seed, 1)), touched: map[string]int{}}
	for i := range 1 + s.rnd.IntN(3) {
		stage := Stage[facts]{Name: fmt.Sprintf("stage-%d", i), Width: 1 + s.rnd.IntN(3)}
		for j := range s.rnd.IntN(7) {
			target := fmt.Sprintf("%d-%d", i, j)
			stage.Lanes = append(stage.Lanes, Lane[facts]{
				Target: target,
				Open:   s.part(target, "open", true),
				Work:   s.part(target, "work", false),
				Close:  s.part(target, "close", true),
			})
		}
		s.plan = append(s.plan, stage)
	}
	return s
}

// part makes up to three steps, gates among them if they may be.
func (s *schedule) part(target, part string, gates bool) []Step[facts] {
	var steps []Step[facts]
	for i := range s.rnd.IntN(4) {
		name := fmt.Sprintf("%s-%d", part, i)
		step := s.change(target, name)
		if gates && s.rnd.IntN(2) == 0 {
			step = s.gate(target, name)
		} else if s.rnd.IntN(4) == 0 {
			s.done[target+"/"+name] = true
		}
		fails, takes, run := s.rnd.IntN(25) == 0, s.minutes(), step.Run
		steps = append(steps, instead(step, func(ctx context.Context, f facts, log Logf) error {
			err := s.spend(ctx, target, name, takes)
			if err == nil && fails && s.broken {
				err = errBroken
			}
			if err != nil {
				return err
			}
			return run(ctx, f, log)
		}))
	}
	return steps
}

func (s *schedule) minutes() time.Duration {
	return time.Duration(1+s.rnd.IntN(600)) * time.Second
}

// spend lets time go by on a target, and writes it down.
func (s *schedule) spend(ctx context.Context, target, step string, takes time.Duration) error {
	from := time.Since(s.begun)
	s.mu.Lock()
	s.touched[target]++
	s.most = max(s.most, len(s.touched))
	s.mu.Unlock()
	var err error
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.touched[target]--; s.touched[target] == 0 {
		delete(s.touched, target)
	}
	s.spans = append(s.spans, span{target, step, from, time.Since(s.begun)})
	return err
}

func (s *schedule) observe(ctx context.Context, target string) (facts, error) {
	if err := s.spend(ctx, target, "", time.Second); err != nil {
		return nil, err
	}
	return s.world.observe(ctx, target)
}

// start runs the plan and gives its events, with Time as time since the beginning.
func (s *schedule) start(ctx context.Context, stop chan struct{}) ([]Event, error) {
	var r recorder
	s.begun, s.spans, s.most, s.ran = time.Now(), nil, 0, nil
	err := Run(ctx, s.plan, Options[facts]{Observe: s.observe, Emit: r.emit, Stop: stop})
	return r.events, err
}

func (s *schedule) since(e Event) time.Duration { return e.Time.Sub(s.begun) }

func schedules(t *testing.T, each func(*testing.T, *schedule)) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { each(t, newSchedule(seed)) })
		})
	}
}

// width holds that no stage had more targets in hand than its width, at any time.
func (s *schedule) width(t *testing.T) {
	t.Helper()
	widest := 0
	for i, stage := range s.plan {
		widest = max(widest, stage.Width)
		for _, a := range s.spans {
			others := map[string]bool{}
			for _, b := range s.spans {
				if strings.HasPrefix(b.target, fmt.Sprintf("%d-", i)) && b.from <= a.from && a.from < b.to {
					others[b.target] = true
				}
			}
			if strings.HasPrefix(a.target, fmt.Sprintf("%d-", i)) && len(others) > stage.Width {
				t.Errorf("%v were in hand at %v, want at most %d of %s", others, a.from, stage.Width, stage.Name)
			}
		}
	}
	if s.most > widest {
		t.Errorf("%d targets were in hand at once, want at most %d", s.most, widest)
	}
}

func TestScheduleAnyFailure(t *testing.T) {
	failures := 0
	schedules(t, func(t *testing.T, s *schedule) {
		s.broken = true
		events, err := s.start(t.Context(), nil)
		s.width(t)
		first, failed := time.Duration(-1), map[string]bool{}
		for _, e := range events {
			if e.Kind == Failed && e.Step != "" {
				if failed[e.Target] = true; first < 0 {
					first = s.since(e)
				}
				if want := fmt.Sprintf("%s: %s: broken", e.Target, e.Step); err == nil || !strings.Contains("\n"+err.Error()+"\n", "\n"+want+"\n") {
					t.Errorf("error is %v, want %q in it", err, want)
				}
			}
			if e.Kind == Started && e.Step != "" && failed[e.Target] {
				t.Errorf("%s starts %s after its failure", e.Target, e.Step)
			}
		}
		if (err != nil) != (first >= 0) {
			t.Errorf("error is %v, first failure at %v", err, first)
		}
		if first >= 0 {
			failures++
			s.nothingBegins(t, first)
		}
		s.accountsForAll(t, events, err)
		s.startedLanesEnd(t, events)
		s.mended(t)
	})
	if failures < 50 || failures > 180 {
		t.Errorf("%d of 200 schedules had a failure: the test no longer sees both kinds", failures)
	}
}

// nothingBegins holds that no lane begins after so long.
func (s *schedule) nothingBegins(t *testing.T, after time.Duration) {
	t.Helper()
	begun := map[string]bool{}
	for _, sp := range s.spans {
		if sp.from <= after {
			begun[sp.target] = true
		}
	}
	for _, sp := range s.spans {
		if sp.from > after && !begun[sp.target] {
			t.Errorf("%s begins at %v, after %v", sp.target, sp.from, after)
		}
	}
}

// accountsForAll holds that each lane of a stage that began, and each stage that did not, has exactly one
// last word.
func (s *schedule) accountsForAll(t *testing.T, events []Event, err error) {
	t.Helper()
	last := map[string][]Kind{}
	for _, e := range events {
		if e.Kind == Started || e.Kind == Progress || e.Step != "" && e.Kind != Pending {
			continue
		}
		last[e.Stage+"/"+e.Target] = append(last[e.Stage+"/"+e.Target], e.Kind)
	}
	for i, stage := range s.plan {
		if n := len(last[stage.Name+"/"]); n != 1 {
			t.Errorf("stage %s ended %d times", stage.Name, n)
			continue
		}
		ended := last[stage.Name+"/"][0]
		if err == nil && ended != Done {
			t.Errorf("stage %s is %s, want done", stage.Name, ended)
		}
		if ended == Pending && i == 0 {
			t.Error("the first stage was never started")
		}
		for _, lane := range stage.Lanes {
			if n := len(last[stage.Name+"/"+lane.Target]); (n == 1) == (ended == Pending) {
				t.Errorf("lane %s of a stage that is %s ended %d times", lane.Target, ended, n)
			}
		}
	}
}

// startedLanesEnd holds that a lane that started is done or failed, whatever happens beside it.
func (s *schedule) startedLanesEnd(t *testing.T, events []Event) {
	t.Helper()
	open := map[string]bool{}
	for _, e := range events {
		if e.Target != "" && e.Step == "" {
			open[e.Target] = e.Kind == Started
		}
	}
	for target, still := range open {
		if still {
			t.Errorf("lane %s started and never ended", target)
		}
	}
}

// mended holds that a run after the cause of all failures is gone ends well, and the one after
// that finds nothing to do.
func (s *schedule) mended(t *testing.T) {
	t.Helper()
	s.broken = false
	if _, err := s.start(t.Context(), nil); err != nil {
		t.Fatalf("error of the second run is %v", err)
	}
	s.width(t)
	events, err := s.start(t.Context(), nil)
	if err != nil || len(s.ran) > 0 {
		t.Errorf("the third run gives %v and ran %q, want nothing", err, s.ran)
	}
	for _, e := range events {
		if e.Target != "" && e.Kind != Skipped {
			t.Errorf("the third run tells %+v, want only what is skipped", e)
		}
	}
}

// openWindows gives the targets of lanes with a step of Close that is due.
func (s *schedule) openWindows() map[string]bool {
	open := map[string]bool{}
	for _, stage := range s.plan {
		for _, lane := range stage.Lanes {
			for _, step := range lane.Close {
				if step.Needs != nil && step.Needs(s.done) != "" {
					open[lane.Target] = true
				}
			}
		}
	}
	return open
}

func TestScheduleAnyStop(t *testing.T) {
	stopped := 0
	schedules(t, func(t *testing.T, s *schedule) {
		after := 2 * s.minutes()
		stop := make(chan struct{})
		time.AfterFunc(after, func() { close(stop) })
		begun := s.openWindows() // lanes that run to their end: these, and those with work that ran before the stop
		events, err := s.start(t.Context(), stop)
		s.width(t)
		if err != nil && err != ErrStopped {
			t.Errorf("error is %v, want none or ErrStopped", err)
		}
		if err == ErrStopped {
			stopped++
		}
		s.nothingBegins(t, after)
		s.accountsForAll(t, events, err)
		for _, e := range events {
			if e.Kind != Started || e.Step == "" {
				continue
			}
			if strings.HasPrefix(e.Step, "work") && s.since(e) <= after {
				begun[e.Target] = true
			}
			if s.since(e) > after && !begun[e.Target] && !strings.HasPrefix(e.Step, "close") {
				t.Errorf("%s starts %s at %v, stopped at %v before any of its work", e.Target, e.Step, s.since(e), after)
			}
		}
		for _, e := range events {
			if e.Kind == Pending && e.Step != "" && begun[e.Target] {
				t.Errorf("%s was left before %s, with its work half done", e.Target, e.Step)
			}
		}
		s.mended(t)
	})
	if stopped < 50 {
		t.Errorf("%d of 200 schedules were stopped: the test no longer sees a stop", stopped)
	}
}

func TestScheduleAnyCancel(t *testing.T) {
	cancelled := 0
	schedules(t, func(t *testing.T, s *schedule) {
		after := 2 * s.minutes()
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("interrupted")
		time.AfterFunc(after, func() { cancel(cause) })
		events, err := s.start(ctx, nil)
		s.width(t)
		if err != nil && !errors.Is(err, cause) {
			t.Errorf("error is %v, want none or the cause", err)
		}
		if err != nil {
			cancelled++
		}
		for _, sp := range s.spans {
			if sp.from > after || err != nil && sp.to > after {
				t.Errorf("%v goes on after the cancel at %v", sp, after)
			}
		}
		s.accountsForAll(t, events, err)
		s.mended(t)
	})
	if cancelled < 50 {
		t.Errorf("%d of 200 schedules were cancelled: the test no longer sees a cancel", cancelled)
	}
}
