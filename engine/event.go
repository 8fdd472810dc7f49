package engine

import "time"

// Kind is what an Event tells.
type Kind string

const (
	Started  Kind = "started"
	Skipped  Kind = "skipped"  // nothing left to do
	Progress Kind = "progress" // a line from a running step
	Done     Kind = "done"
	Failed   Kind = "failed"
	Pending  Kind = "pending" // not started, because the run ended before
)

// Event is the engine's only output. Target and Step are empty in the events of a stage, Step in
// those of a lane.
type Event struct {
	Time                time.Time
	Kind                Kind
	Stage, Target, Step string
	Text                string // the reason of a start, a line of progress
	Err                 error  // of Failed
}
