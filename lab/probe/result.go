package probe

import (
	"fmt"
	"time"
)

// minimumSent is the part of the requests due, in percent, that must have been sent for a result to say anything.
const minimumSent = 95

// Failure is one request that was sent and not answered well.
type Failure struct {
	Time   time.Time // when it was due
	Target string
	Took   time.Duration
	Error  string
}

// String is one line with time, target and reason.
func (f Failure) String() string {
	return fmt.Sprintf("%s %s after %v: %s", f.Time.UTC().Format("15:04:05.000"), f.Target, f.Took.Round(time.Millisecond), f.Error)
}

// Result is what became of a target's requests. Due = Sent + those sent too late to count; Sent = OK + Failed.
type Result struct {
	Target        string
	Due, Sent     int
	OK, Failed    int
	Failures      []Failure     // in order of time
	LongestOutage time.Duration // from the first of failures in a row to the first answer after them, or to the last request
	Slowest       time.Duration // the longest that an answered request took
}

// Valid returns an error when too little was sent for the counts to mean anything.
func (r Result) Valid() error {
	if r.Due == 0 {
		return fmt.Errorf("%s: no request was due", r.Target)
	}
	if r.Sent*100 < r.Due*minimumSent {
		return fmt.Errorf("%s: only %d of %d requests due were sent, want %d %%", r.Target, r.Sent, r.Due, minimumSent)
	}
	return nil
}

// String is one line of counts.
func (r Result) String() string {
	return fmt.Sprintf("%d due, %d sent, %d ok, %d failed, longest outage %v, slowest answer %v",
		r.Due, r.Sent, r.OK, r.Failed, r.LongestOutage.Round(time.Millisecond), r.Slowest.Round(time.Millisecond))
}

// summarize counts slots, which are in order of their due times. Unsent ones neither begin nor end an outage.
func summarize(target string, slots []slot) Result {
	r := Result{Target: target, Due: len(slots)}
	var down time.Time // due time of the first failure in a row; zero while answered
	for _, s := range slots {
		if !s.sent {
			continue
		}
		r.Sent++
		if s.err == "" {
			r.OK++
			r.Slowest = max(r.Slowest, s.took)
		} else {
			r.Failed++
			r.Failures = append(r.Failures, Failure{Time: s.due, Target: target, Took: s.took, Error: s.err})
			if down.IsZero() {
				down = s.due
			}
		}
		if !down.IsZero() {
			r.LongestOutage = max(r.LongestOutage, s.due.Sub(down))
		}
		if s.err == "" {
			down = time.Time{}
		}
	}
	return r
}
