// Package engine runs plans: stages in order, lanes side by side, steps one after another.
//
// A Plan is a list of Stages; a Stage holds one Lane per target; a Lane is a window that opens,
// does its work and closes; each part is a list of Steps. F is the type of the facts that steps
// decide on: the engine never looks inside it.
//
// Facts are read afresh when a lane starts. A step that still has a need is run, the facts are read
// again, and the need must be gone: ran without effect is an error. A failed step ends its lane and
// no further lane starts; lanes in flight run to their end and nothing is undone. Nothing is
// remembered: running the same plan, or a newly made one, again is resuming.
//
// The engine knows nothing of SSH or Kubernetes, prints nothing and retries nothing. Its only
// output is a stream of Events.
package engine

import (
	"context"
	"errors"
	"fmt"
)

// Plan is the stages in the order in which they run. An empty plan means there is nothing to do.
type Plan[F any] []Stage[F]

// Stage is a group of lanes that may run side by side.
type Stage[F any] struct {
	Name  string
	Width int // lanes in flight at once; at least one
	Lanes []Lane[F]
}

// Lane is what happens to one target, in order.
//
// Open and Close stand for something temporary around the work, such as a cordon. Open runs only
// when a step of Work is due. Close runs whenever the lane has anything to do, so a window that an
// interrupted run left open is closed even when its work is already done.
type Lane[F any] struct {
	Target            string // host name, or "cluster"
	Open, Work, Close []Step[F]
}

// Step is one named thing to bring about.
type Step[F any] struct {
	Name string // kebab-case, verb first: "restart-kubelet"; gates start with "await-"
	Does string // completes "this will …"

	// Needs says why there is something to do; "" means it is done. It is pure: plan, skip, resume
	// and proof all ask it. A gate or an action has none and runs whenever it is reached.
	Needs func(F) string

	// Run brings the outcome about, or waits for it. It gets the facts as last read in this lane.
	Run func(context.Context, F, Logf) error
}

// Logf reports progress of a running step, one line a call.
type Logf func(format string, args ...any)

// ErrNoEffect marks a step that ran without error and whose need is still there.
var ErrNoEffect = errors.New("ran, but did not take effect")

// ErrStopped is returned by Run when it was asked to stop and work remains.
var ErrStopped = errors.New("stopped, work remains")

// due reports why a step has to run, and whether it has to.
func (s Step[F]) due(f F) (string, bool) {
	if s.Needs == nil {
		return "", true
	}
	why := s.Needs(f)
	return why, why != ""
}

// WorkDue reports whether any step of Work has to run.
func (l Lane[F]) WorkDue(f F) bool { return anyDue(l.Work, f) }

// Due reports whether the lane has anything to do: work, or a window to close.
func (l Lane[F]) Due(f F) bool {
	return l.open(f) || l.WorkDue(f)
}

// open reports whether the facts show an open window: a step of Close has a need.
func (l Lane[F]) open(f F) bool {
	for _, s := range l.Close {
		if s.Needs != nil && s.Needs(f) != "" {
			return true
		}
	}
	return false
}

// Steps lists what the lane would run with facts f, in order: the steps that are due, Open only
// when there is work. A lane with nothing to do lists nothing.
func (l Lane[F]) Steps(f F) []Step[F] {
	if !l.Due(f) {
		return nil
	}
	parts := [][]Step[F]{l.Work, l.Close}
	if l.WorkDue(f) {
		parts = [][]Step[F]{l.Open, l.Work, l.Close}
	}
	var due []Step[F]
	for _, part := range parts {
		for _, s := range part {
			if l.planned(s, f) {
				due = append(due, s)
			}
		}
	}
	return due
}

// planned reports whether a step will run: it is due, or it closes what Open is about to open.
func (l Lane[F]) planned(s Step[F], f F) bool {
	if _, due := s.due(f); due {
		return true
	}
	if !l.WorkDue(f) {
		return false
	}
	for _, c := range l.Close {
		if c.Name == s.Name {
			return true
		}
	}
	return false
}

func anyDue[F any](steps []Step[F], f F) bool {
	for _, s := range steps {
		if _, due := s.due(f); due {
			return true
		}
	}
	return false
}

// Prune leaves only the lanes and stages that have something to do with facts f.
func (p Plan[F]) Prune(f F) Plan[F] {
	var kept Plan[F]
	for _, stage := range p {
		var lanes []Lane[F]
		for _, l := range stage.Lanes {
			if l.Due(f) {
				lanes = append(lanes, l)
			}
		}
		if len(lanes) > 0 {
			stage.Lanes = lanes
			kept = append(kept, stage)
		}
	}
	return kept
}

// Validate reports a plan that cannot be run: a name missing or used twice where it must be
// unique, a step without Run, a stage without width.
func (p Plan[F]) Validate() error {
	stages := map[string]bool{}
	for _, stage := range p {
		if stage.Name == "" || stages[stage.Name] {
			return fmt.Errorf("stage %q: name is missing or used twice", stage.Name)
		}
		stages[stage.Name] = true
		if stage.Width < 1 {
			return fmt.Errorf("stage %q: width is %d, need at least 1", stage.Name, stage.Width)
		}
		targets := map[string]bool{}
		for _, lane := range stage.Lanes {
			if lane.Target == "" || targets[lane.Target] {
				return fmt.Errorf("stage %q: target %q is missing or used twice", stage.Name, lane.Target)
			}
			targets[lane.Target] = true
			if err := lane.validate(); err != nil {
				return fmt.Errorf("stage %q: %s: %w", stage.Name, lane.Target, err)
			}
		}
	}
	return nil
}

func (l Lane[F]) validate() error {
	names := map[string]bool{}
	for _, part := range [][]Step[F]{l.Open, l.Work, l.Close} {
		for _, s := range part {
			if s.Name == "" || names[s.Name] {
				return fmt.Errorf("step %q: name is missing or used twice", s.Name)
			}
			if s.Run == nil || s.Does == "" {
				return fmt.Errorf("step %q: needs both Does and Run", s.Name)
			}
			names[s.Name] = true
		}
	}
	return nil
}
