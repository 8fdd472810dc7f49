// Package ui shows a run to people and to machines.
//
// [Lines] and [JSON] each give a function that takes the engine's events one at a time, as the
// engine promises to send them. Neither can stop a run: an event that cannot be written is lost.
package ui

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kuberung/kuberung/engine"
)

// Lines gives a function that writes each event to w as timestamped plain text:
//
//	03:12:45 cp-1      upgrade-kubelet         started: kubelet is v1.35.4
//
// A stage stands in brackets. Text of several lines gets the same beginning on each of them, so
// that grep for a host finds all that was said about it. Control characters, which may come from
// a host, are written as escapes. The time is that of the event, in its own zone.
func Lines(w io.Writer) func(engine.Event) {
	l := &lines{w: w, target: 8, step: 22, began: map[place]time.Time{}, told: map[place]bool{}}
	return l.event
}

// place is what an event speaks of: a stage, a lane or a step.
type place struct{ stage, target, step string }

// within lists what p is a part of, p itself first.
func (p place) within() []place {
	return []place{p, {p.stage, p.target, ""}, {p.stage, "", ""}}
}

type lines struct {
	w            io.Writer
	target, step int // widths of the columns so far
	began        map[place]time.Time
	told         map[place]bool // the reason of its failure was written already
}

func (l *lines) event(e engine.Event) {
	at := place{e.Stage, e.Target, e.Step}
	if e.Kind == engine.Started {
		l.began[at] = e.Time
		if e.Step == "" && e.Target != "" {
			return // the first step of the lane says it
		}
	}
	head := e.Time.Format(time.TimeOnly) + " " + l.columns(e)
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(l.text(at, e), "\n"), "\n") {
		out.WriteString(head + Printable(line) + "\n")
	}
	_, _ = io.WriteString(l.w, out.String()) // a closed terminal must not stop the run
}

// columns gives what an event is about, padded so that texts stand below each other. A stage is
// a heading: it keeps to no column, and a long name of one does not widen them.
func (l *lines) columns(e engine.Event) string {
	if e.Target == "" {
		return "[" + e.Stage + "] "
	}
	l.target, l.step = max(l.target, len(e.Target)), max(l.step, len(e.Step))
	return fmt.Sprintf("%-*s  %-*s  ", l.target, e.Target, l.step, e.Step)
}

// text says what happened at a place.
func (l *lines) text(at place, e engine.Event) string {
	switch e.Kind {
	case engine.Started:
		return sentence("started", e.Text)
	case engine.Skipped:
		return sentence("skipped, nothing to do", e.Text)
	case engine.Progress:
		return e.Text
	case engine.Done:
		return sentence("done"+l.took(" in ", at, e.Time), e.Text)
	case engine.Failed:
		return sentence("failed"+l.took(" after ", at, e.Time), l.reason(at, e.Err))
	case engine.Pending:
		return sentence("not started", e.Text)
	}
	return sentence(string(e.Kind), e.Text)
}

// took gives how long a place was at work, after word; "" when it never started.
func (l *lines) took(word string, at place, end time.Time) string {
	began, ok := l.began[at]
	if !ok {
		return ""
	}
	return word + duration(end.Sub(began))
}

// reason gives the text of err unless it was already told by a part of the place.
func (l *lines) reason(at place, err error) string {
	if err == nil || l.told[at] {
		return ""
	}
	for _, p := range at.within() {
		l.told[p] = true
	}
	return err.Error()
}

func sentence(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// duration is rounded to what a reader can use.
func duration(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		return strings.TrimSuffix(text, "0s")
	}
	return text
}

// Printable writes control characters, such as those that move a terminal's cursor, as escapes.
func Printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
