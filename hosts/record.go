package hosts

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// UnitState is what has become of a detached unit.
type UnitState int

// The states of a unit.
const (
	None        UnitState = iota // no record
	Running                      // queued, running or ending
	Interrupted                  // was started, does not run, left no result: a reboot or a kill
	Exited                       // ended with a status
)

// String is the state in lower case.
func (s UnitState) String() string {
	if s < None || s > Exited {
		return fmt.Sprintf("UnitState(%d)", int(s))
	}
	return [...]string{"none", "running", "interrupted", "exited"}[s]
}

// Record is what a host knows of a detached unit.
type Record struct {
	State    UnitState
	Code     int       // exit status, if Exited; 128 and a signal's number if that ended the command
	Started  time.Time // by the host's clock; zero if not known
	Ended    time.Time // by the host's clock; zero unless Exited
	Claimed  bool      // somebody has read the result
	Rebooted bool      // the host has booted since the unit was started, if Interrupted
	Tail     string    // the end of its output
}

// report is one look at a unit, as the scripts print it.
type report struct {
	state          UnitState
	live           bool   // systemd has it queued, running or ending
	id             string // of this run; empty without a record
	claimed        bool
	rebooted       bool
	code           int
	started, ended time.Time
	size           int64 // bytes of output when looked at
}

func (r report) record(tail string) Record {
	return Record{State: r.state, Code: r.code, Started: r.started, Ended: r.ended, Claimed: r.claimed, Rebooted: r.rebooted, Tail: tail}
}

// parseReport reads the line of key=value words that the scripts print.
func parseReport(line string) (report, error) {
	var r report
	seen := map[string]bool{}
	for _, word := range strings.Fields(line) {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return report{}, fmt.Errorf("unit report %q: no key in %q", line, word)
		}
		if err := r.set(key, value); err != nil {
			return report{}, fmt.Errorf("unit report %q: %s: %w", line, key, err)
		}
		seen[key] = true
	}
	if !seen["state"] || !seen["live"] || !seen["size"] {
		return report{}, fmt.Errorf("unit report %q is incomplete", line)
	}
	if r.state == Exited && (!seen["code"] || r.ended.IsZero()) {
		return report{}, fmt.Errorf("unit report %q has no result", line)
	}
	return r, nil
}

func (r *report) set(key, value string) (err error) {
	switch key {
	case "state":
		r.state, err = parseState(value)
	case "live":
		r.live = value == "1"
	case "id":
		r.id = value
	case "claimed":
		r.claimed = value == "1"
	case "rebooted":
		r.rebooted = value == "1"
	case "code":
		r.code, err = strconv.Atoi(value)
	case "started":
		r.started, err = parseSeconds(value)
	case "ended":
		r.ended, err = parseSeconds(value)
	case "size":
		r.size, err = strconv.ParseInt(value, 10, 64)
	}
	return err
}

func parseState(s string) (UnitState, error) {
	for st := None; st <= Exited; st++ {
		if st.String() == s {
			return st, nil
		}
	}
	return None, fmt.Errorf("unknown state %q", s)
}

func parseSeconds(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(n, 0).UTC(), nil
}
