package hosts

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"time"
)

// Unit is work that must not be cut: it runs as a transient systemd unit and ends on the host whatever
// becomes of the connection and of this process.
type Unit struct {
	// Name is the identity of the work: letters, digits, dot, dash, underscore. Put into it what makes one
	// piece of work differ from the next (a version, say): a unit of this name that runs, or whose result
	// nobody has read, is taken to be this work. On the host it is kuberung-<name>.service.
	Name string
	// Argv runs as root in /, with a standard search path, HOME=/root and empty standard input. It is kept
	// out of the unit's properties, which everybody on the host can read.
	Argv []string
	// Limit is how long RunUnit waits, counted from its call. It does not end the unit. 0: 2 hours.
	Limit time.Duration
}

const defaultUnitLimit = 2 * time.Hour

var unitName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$`)

func checkUnitName(name string) error {
	if !unitName.MatchString(name) {
		return fmt.Errorf("unit name %q: want letters, digits, dots, dashes and underscores, at most 100", name)
	}
	return nil
}

// serviceName is the unit as systemd knows it.
func serviceName(name string) string { return "kuberung-" + name + ".service" }

// RunUnit runs u to its end, hands every line of its output to log (nil: nobody) once and in order, and
// returns how it ended. Called again, by anybody, it finds what an earlier call left:
//
//   - a unit still running is followed from its beginning (from a tail, if that is long), never started twice;
//   - a finished unit whose result nobody has read gives that result.
//
// Both return adopted. Anything else (no record, a result already read, a unit that a reboot interrupted) is
// rotated away and u starts afresh; one earlier record is kept.
//
// While following, lost connections are made again until the limit or ctx ends. The error is *[ExitError] for
// a status other than 0; else it matches [ErrNoSystemdRun], [ErrUnitInterrupted], [ErrUnitLimit], the cause of
// ctx, or tells what failed on the way. Record holds what is known in every case. When ctx or the limit ends
// first the unit goes on, the error says so, and the next call finds it.
func (h *Host) RunUnit(ctx context.Context, u Unit, log func(line string)) (rec Record, adopted bool, err error) {
	if err := checkUnitName(u.Name); err != nil {
		return Record{}, false, err
	}
	if len(u.Argv) == 0 {
		return Record{}, false, fmt.Errorf("unit %s: no command", u.Name)
	}
	if err := checkWords(u.Argv); err != nil {
		return Record{}, false, fmt.Errorf("unit %s: %w", u.Name, err)
	}
	if u.Limit <= 0 {
		u.Limit = defaultUnitLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, u.Limit, fmt.Errorf("%w of %v", ErrUnitLimit, u.Limit))
	defer cancel()
	f := &follower{host: h, unit: u, id: rand.Text(), log: log}
	found, err := f.begin(ctx)
	if err != nil {
		return Record{}, false, err
	}
	adopted = found.id != f.id
	last, err := f.follow(ctx, found)
	rec = last.record(f.tail.String())
	if err != nil {
		return rec, adopted, err
	}
	return f.finish(ctx, last, rec, adopted)
}

// finish marks a result as read, now that it is in our hands, and turns it into an error if it is one.
func (f *follower) finish(ctx context.Context, last report, rec Record, adopted bool) (Record, bool, error) {
	switch rec.State {
	case Exited:
	case Interrupted:
		err := fmt.Errorf("unit %s on %s: %w", f.unit.Name, f.host.Name(), ErrUnitInterrupted)
		if rec.Rebooted {
			err = fmt.Errorf("%w: the host has rebooted since the unit was started", err)
		}
		if said := lastWords(rec.Tail, 400); said != "" {
			err = fmt.Errorf("%w; last output: %s", err, said)
		}
		return rec, adopted, err
	default:
		return rec, adopted, fmt.Errorf("unit %s on %s: its record is gone", f.unit.Name, f.host.Name())
	}
	err := f.host.retry(ctx, reconnectable, func() error { return f.host.claim(ctx, f.unit.Name, last.id) })
	if err != nil {
		return rec, adopted, fmt.Errorf("unit %s on %s ended with status %d, but could not be marked as read: %w", f.unit.Name, f.host.Name(), rec.Code, err)
	}
	rec.Claimed = true
	if rec.Code != 0 {
		return rec, adopted, &ExitError{Host: f.host.Name(), Command: shorten(Quote(f.unit.Argv...), 120), Code: rec.Code, Stderr: rec.Tail}
	}
	return rec, adopted, nil
}

// UnitRecord reads what is known of a unit, changing nothing. Tail is the end of its output.
func (h *Host) UnitRecord(ctx context.Context, name string) (Record, error) {
	if err := checkUnitName(name); err != nil {
		return Record{}, err
	}
	rep, tail, err := h.poll(ctx, name, -tailSize)
	if err != nil {
		return Record{}, err
	}
	return rep.record(string(tail)), nil
}

// ForgetUnit removes what the host remembers of a unit, its output included. A running unit is left alone and
// gives [ErrUnitRunning].
func (h *Host) ForgetUnit(ctx context.Context, name string) error {
	if err := checkUnitName(name); err != nil {
		return err
	}
	_, err := h.exec(ctx, request{label: "forget unit " + name, text: unitText + forgetText, args: h.unitArgs(name), privileged: true})
	return unitError(err)
}

// unitError turns the scripts' exit statuses into sentinels.
func unitError(err error) error {
	switch exitCode(err) {
	case codeNoSystemd:
		return fmt.Errorf("%w: %w", ErrNoSystemdRun, err)
	case codeUntold:
		return fmt.Errorf("%w: %w", errUntold, err)
	case codeRunning:
		return fmt.Errorf("%w: %w", ErrUnitRunning, err)
	}
	return err
}
