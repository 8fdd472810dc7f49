package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	pollBytes  = 256 << 10 // output per look
	pollLimit  = 30 * time.Second
	tailSize   = 4 << 10
	longOutput = 1 << 20  // an adopted unit with more output than this is followed from a tail
	longTail   = 64 << 10 // of this size
	longLine   = 64 << 10 // a line that grows beyond this is handed out in pieces
)

// follower watches one unit.
type follower struct {
	host *Host
	unit Unit
	id   string // of the run this call would start
	log  func(string)

	offset int64 // output read so far
	skip   bool  // drop the rest of a line that the offset cut
	line   []byte
	tail   tailBuffer
}

func (h *Host) unitArgs(name string, more ...string) []string {
	return append([]string{h.tune.stateDir, name}, more...)
}

// begin finds or starts the unit. The first connection has to work; from then on the unit may exist, and only
// its answer ends the attempts, each of which is safe to repeat.
func (f *follower) begin(ctx context.Context) (report, error) {
	if err := f.host.Connect(ctx); err != nil {
		return report{}, err
	}
	var found report
	sent := false
	again := func(err error) bool {
		sent = sent || !neverSent(err)
		return sent && reconnectable(err)
	}
	err := f.host.retry(ctx, again, func() (err error) {
		for {
			if found, err = f.host.begin(ctx, f.unit, f.id); err != nil {
				return err
			}
			ending := found.state == Exited && found.claimed && found.live && found.id != f.id
			if !ending {
				return nil
			}
			if err := sleep(ctx, f.host.tune.pollEvery); err != nil {
				return fmt.Errorf("an earlier run is still ending: %w", err)
			}
		}
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("start unit %s on %s: %w; it may have been started: the next run will find it", f.unit.Name, f.host.Name(), err)
	}
	return found, err
}

func (h *Host) begin(ctx context.Context, u Unit, id string) (report, error) {
	text := wrapper(h.tune.stateDir+"/units/"+u.Name, u.Argv)
	out, err := h.exec(ctx, request{
		label: "start unit " + u.Name, text: unitText + beginText, stdin: strings.NewReader(text),
		args: h.unitArgs(u.Name, id, strconv.Itoa(len(text))), privileged: true,
	})
	if err != nil {
		return report{}, unitError(err)
	}
	return parseReport(string(out))
}

// follow hands out output until the unit has ended, or ctx has.
func (f *follower) follow(ctx context.Context, found report) (report, error) {
	id := found.id
	if id != f.id && found.size > longOutput {
		f.offset, f.skip = found.size-longTail, true
	}
	last := found
	for {
		n := 0
		err := f.host.retry(ctx, passing, func() error {
			rep, out, err := f.host.poll(ctx, f.unit.Name, f.offset)
			if err != nil {
				return err
			}
			if rep.id != id {
				return errReplaced
			}
			last, n = rep, len(out)
			f.take(out)
			return nil
		})
		if err != nil {
			f.flush()
			return last, f.left(err)
		}
		if n > 0 && f.offset < last.size {
			continue // there is more already
		}
		if last.state != Running {
			f.flush()
			return last, nil
		}
		if err := sleep(ctx, f.host.tune.pollEvery); err != nil {
			f.flush()
			return last, f.left(err)
		}
	}
}

// errReplaced: the unit followed is history, somebody started the next one.
var errReplaced = errors.New("another run has taken its place")

// left is the error of a unit that goes on without us, as far as can be told.
func (f *follower) left(err error) error {
	name := serviceName(f.unit.Name)
	where := "it goes on there as " + name
	switch {
	case errors.Is(err, errReplaced):
		return fmt.Errorf("unit %s on %s: %w", f.unit.Name, f.host.Name(), err)
	case errors.Is(err, ErrConnLost), errors.Is(err, ErrUnreachable):
		where = "when last seen it ran there as " + name
	}
	err = fmt.Errorf("unit %s on %s: %w; %s, and the next run will find it", f.unit.Name, f.host.Name(), err, where)
	if said := lastWords(f.tail.String(), 400); said != "" && errors.Is(err, ErrUnitLimit) {
		err = fmt.Errorf("%w; last output: %s", err, said)
	}
	return err
}

// poll looks at a unit once and reads output from an offset on (negative: from the end).
func (h *Host) poll(ctx context.Context, name string, from int64) (report, []byte, error) {
	out, err := h.exec(ctx, request{
		label: "look at unit " + name, text: unitText + pollText, privileged: true, limit: pollLimit,
		args: h.unitArgs(name, strconv.FormatInt(from, 10), strconv.Itoa(pollBytes)),
	})
	if err != nil {
		return report{}, nil, unitError(err)
	}
	line, body, _ := bytes.Cut(out, []byte("\n"))
	rep, err := parseReport(string(line))
	return rep, body, err
}

// claim marks the result of one run as read.
func (h *Host) claim(ctx context.Context, name, id string) error {
	_, err := h.exec(ctx, request{label: "claim unit " + name, text: unitText + claimText, args: h.unitArgs(name, id), privileged: true})
	return unitError(err)
}
