package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Options say how a plan is run.
type Options[F any] struct {
	// Observe reads the facts that the steps of one target decide on. It must have a limit of its own.
	Observe func(ctx context.Context, target string) (F, error)
	// Enter is asked before the facts of a lane are read. It gives the context that the lane runs with, which ends
	// its steps when it ends, and what is called when the lane has ended, however it did. An error keeps the lane
	// from starting. May be nil.
	Enter func(ctx context.Context, target string) (inside context.Context, leave func(), err error)
	// Emit gets every event. It is never called concurrently.
	Emit func(Event)
	// Stop, when closed, ends the run in good order: no further lane starts, and a lane goes no
	// further unless its window is open or its work has begun: that one runs to its end. May be nil.
	Stop <-chan struct{}
}

// Run runs the plan and returns what failed, each error with its target and step, joined; ErrStopped
// when Stop ended it; or the context's cause when ctx did. Cancelling ctx ends running steps at once.
func Run[F any](ctx context.Context, p Plan[F], o Options[F]) error {
	if err := p.Validate(); err != nil {
		return err
	}
	r := &runner[F]{Options: o}
	for i, stage := range p {
		r.emit(Event{Kind: Started, Stage: stage.Name})
		if err := r.stage(ctx, stage); err != nil {
			r.emit(Event{Kind: Failed, Stage: stage.Name, Err: err})
			for _, later := range p[i+1:] {
				r.emit(Event{Kind: Pending, Stage: later.Name})
			}
			return err
		}
		r.emit(Event{Kind: Done, Stage: stage.Name})
	}
	return nil
}

type runner[F any] struct {
	Options[F]
	mu sync.Mutex
}

func (r *runner[F]) emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time = time.Now()
	r.Emit(e)
}

// ended says why nothing new may start, or nil.
func (r *runner[F]) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-r.Stop:
		return ErrStopped
	default:
		return nil
	}
}

// stage keeps Width lanes in flight. A finished lane's result is looked at before the next starts.
func (r *runner[F]) stage(ctx context.Context, s Stage[F]) error {
	results := make(chan error)
	var errs []error
	inFlight, next := 0, 0
	for {
		for ; next < len(s.Lanes) && inFlight < s.Width && len(errs) == 0; next++ {
			if err := r.ended(ctx); err != nil {
				errs = append(errs, err)
				break
			}
			inFlight++
			go func(l Lane[F]) { results <- r.lane(ctx, s.Name, l) }(s.Lanes[next])
		}
		if inFlight == 0 {
			break
		}
		if err := <-results; err != nil {
			errs = append(errs, err)
		}
		inFlight--
	}
	for _, l := range s.Lanes[next:] {
		r.emit(Event{Kind: Pending, Stage: s.Name, Target: l.Target})
	}
	return joined(errs)
}

// joined joins errors; of several lanes that were stopped, one says so for all.
func joined(errs []error) error {
	var kept []error
	stopped := false
	for _, err := range errs {
		if err == ErrStopped {
			if stopped {
				continue
			}
			stopped = true
		}
		kept = append(kept, err)
	}
	if len(kept) == 1 {
		return kept[0]
	}
	return errors.Join(kept...)
}

// lane runs one lane, once it may. A panic outside of its steps, in a need, ends it like any failure.
func (r *runner[F]) lane(ctx context.Context, stage string, l Lane[F]) error {
	ended := false
	err := protect(func() error {
		if r.Enter != nil {
			inside, leave, err := r.Enter(ctx, l.Target)
			if err != nil {
				return err
			}
			defer leave()
			ctx = inside
		}
		err := r.walk(ctx, stage, l)
		ended = true
		return err
	})
	if !ended {
		r.emit(Event{Kind: Failed, Stage: stage, Target: l.Target, Err: err})
		err = fmt.Errorf("%s: %w", l.Target, err)
	}
	return err
}

// walk goes through the lane's steps, in order.
func (r *runner[F]) walk(ctx context.Context, stage string, l Lane[F]) error {
	event := Event{Stage: stage, Target: l.Target}
	facts, err := r.observe(ctx, l.Target)
	if err != nil {
		event.Kind, event.Err = Failed, err
		r.emit(event)
		return fmt.Errorf("%s: %w", l.Target, err)
	}
	if !l.Due(facts) {
		event.Kind = Skipped
		r.emit(event)
		return nil
	}
	event.Kind = Started
	r.emit(event)
	parts := []struct {
		steps     []Step[F]
		committed bool // past the point where stopping would leave the target half done
	}{{l.Open, false}, {l.Work, false}, {l.Close, true}}
	if !l.WorkDue(facts) {
		parts = parts[1:]
	}
	committed := l.open(facts)
	for _, part := range parts {
		for _, s := range part.steps {
			if err := r.ended(ctx); err != nil && !(errors.Is(err, ErrStopped) && (committed || part.committed)) {
				r.emit(Event{Kind: Pending, Stage: stage, Target: l.Target, Step: s.Name})
				return err
			}
			ran, err := r.step(ctx, stage, l.Target, s, &facts)
			if err != nil {
				event.Kind, event.Err = Failed, err
				r.emit(event)
				return fmt.Errorf("%s: %s: %w", l.Target, s.Name, err)
			}
			committed = committed || ran && (inWork(l, s) || l.open(facts))
		}
	}
	event.Kind = Done
	r.emit(event)
	return nil
}

func inWork[F any](l Lane[F], s Step[F]) bool {
	for _, w := range l.Work {
		if w.Name == s.Name {
			return true
		}
	}
	return false
}

// step runs one step if it is due, then reads the facts again and asks for its need once more.
func (r *runner[F]) step(ctx context.Context, stage, target string, s Step[F], facts *F) (ran bool, err error) {
	event := Event{Stage: stage, Target: target, Step: s.Name}
	emit := func(kind Kind, text string, err error) {
		e := event
		e.Kind, e.Text, e.Err = kind, text, err
		r.emit(e)
	}
	why, due := s.due(*facts)
	if !due {
		emit(Skipped, "", nil)
		return false, nil
	}
	emit(Started, why, nil)
	log := func(format string, args ...any) { emit(Progress, fmt.Sprintf(format, args...), nil) }
	err = protect(func() error { return s.Run(ctx, *facts, log) })
	if err == nil && s.Needs != nil {
		err = r.proof(ctx, target, s, facts)
	}
	if err != nil {
		emit(Failed, "", err)
		return true, err
	}
	emit(Done, "", nil)
	return true, nil
}

func (r *runner[F]) proof(ctx context.Context, target string, s Step[F], facts *F) error {
	fresh, err := r.observe(ctx, target)
	if err != nil {
		return fmt.Errorf("ran, but could not be proven: %w", err)
	}
	*facts = fresh
	if left := s.Needs(fresh); left != "" {
		return fmt.Errorf("%w: %s", ErrNoEffect, left)
	}
	return nil
}

func (r *runner[F]) observe(ctx context.Context, target string) (f F, err error) {
	err = protect(func() error {
		f, err = r.Observe(ctx, target)
		return err
	})
	if err != nil {
		return f, fmt.Errorf("read facts: %w", err)
	}
	return f, nil
}

// protect turns a panic into an error: one broken step must not take lanes in flight with it.
func protect(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}
