package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Limits of what a case waits for.
const (
	readLimit    = 5 * time.Minute  // a check or a plan
	upgradeLimit = 40 * time.Minute // a whole upgrade
	secondLimit  = 30 * time.Second // a run that finds nothing to do
	endLimit     = 45 * time.Second // our own view of the cluster catching up with the tool's
)

// endToEnd is one case on a real cluster.
type endToEnd struct {
	name   string
	shapes []string
	from   string // version at which the cluster starts
	to     string // and the one to which it goes
	limit  time.Duration
	shows  string // what a pass means
	run    func(ctx context.Context, b *bed) error
}

// endToEnds are all cases, in the order in which they run.
var endToEnds = []endToEnd{
	{"climb", []string{"small", "ha"}, "v1.35.4", "v1.36.3", 60 * time.Minute,
		"a minor up: planned, performed, proven, unnoticed, and nothing left to do", climb},
	{"kill", []string{"small"}, "v1.35.4", "v1.36.3", 60 * time.Minute,
		"killed during apply, during a drain and after a cordon, it goes on", killed},
	{"once", []string{"small"}, "v1.34.4", "v1.36.3", 75 * time.Minute,
		"two minors up, the worker in one move at the end, as if it had gone each rung", once},
	{"two", []string{"small", "ha"}, "v1.35.4", "v1.36.3", 45 * time.Minute,
		"of two operators one works, the other is told who; after a kill unlock or the same machine goes on", two},
	{"kills", []string{"small", "ha"}, "v1.35.4", "v1.36.3", 90 * time.Minute,
		"killed 20 times at moments drawn from SEED, spread over the rung, it comes to the same end", killedAnywhere},
	{"cut", []string{"small", "ha"}, "v1.35.4", "v1.36.3", 45 * time.Minute,
		"connections cut during kubeadm upgrade apply, the same run goes on", cut},
	{"reboot", []string{"ha"}, "v1.35.4", "v1.36.3", 75 * time.Minute,
		"a control plane reboots under kubeadm: the run goes on, or says how to, and does", rebooted},
	{"troubles", []string{"ha"}, "v1.35.4", "v1.36.3", 75 * time.Minute,
		"two operators, connections that are cut and a reboot, one after the other on one rung", troubles},
	{"patch", []string{"small"}, "v1.36.1", "v1.36.3", 45 * time.Minute,
		"a move inside a minor by the same order", climb},
	{"badinput", []string{"small"}, "v1.35.4", "v1.36.3", 30 * time.Minute,
		"bad input is refused by name and changes nothing", badInput},
	{"prober", []string{"small"}, "v1.35.4", "v1.36.3", 15 * time.Minute,
		"the prober notices an endpoint that is killed without grace", proberNotices},
	{"ssh", []string{"small"}, "v1.35.4", "v1.36.3", 75 * time.Minute,
		"OpenSSH, sudo and systemd as strict and odd as at real sites; a climb through two bastions", overSSH},
}

// e2e runs the cases called name (all when empty) in the given shape (all when empty), each on a fresh cluster, and
// writes a verdict for each. The error counts those that failed, or says that there is no such case.
func e2e(ctx context.Context, out io.Writer, name, shape string) error {
	passed, failed := 0, 0
	for _, s := range shapes {
		ran := false
		for _, c := range endToEnds {
			if name != "" && name != c.name || shape != "" && shape != s.Name || !slices.Contains(c.shapes, s.Name) {
				continue
			}
			ran = true
			if c.verdict(ctx, out, s.Name) {
				passed++
			} else {
				failed++
			}
		}
		if ran && shape == "" {
			// Stopped, not removed: it can still be looked at, and takes no time from the next shape.
			if err := stopHosts(ctx, s.Hosts); err != nil {
				say("stop lab %s: %v", s.Name, err)
			}
		}
	}
	if passed+failed == 0 {
		return fmt.Errorf("no case %q in the shape %q; e2e-list shows them all", name, shape)
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, passed+failed)
	}
	return nil
}

// verdict runs a case and prints how it went, with what it measured.
func (c endToEnd) verdict(ctx context.Context, out io.Writer, shape string) bool {
	began := time.Now()
	measured := &table{}
	err := c.attempt(ctx, shape, measured)
	took := time.Since(began).Round(time.Second)
	measured.add("whole case", took)
	if err == nil {
		fmt.Fprintf(out, "PASS %s/%s (%v)\n", c.name, shape, took)
	} else {
		fmt.Fprintf(out, "FAIL %s/%s: %s\n", c.name, shape, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	measured.print(out)
	return err == nil
}

// attempt runs a case on a fresh cluster within its limit.
func (c endToEnd) attempt(ctx context.Context, shape string, measured *table) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the case took longer than %v", c.limit))
	defer cancel()
	defer func() {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(cause, err)
		}
	}()
	s, err := c.settings(shape)
	if err != nil {
		return err
	}
	l := newLab(s)
	return l.alone(ctx, func() error { // nobody else may load or remove the cluster meanwhile
		b, err := freshBed(ctx, l, c, measured)
		if err != nil {
			return fmt.Errorf("prepare the cluster: %w", err)
		}
		defer os.RemoveAll(b.scratch)
		favourObserver()
		return c.run(ctx, b)
	})
}

// settings are those of the environment, with the case's own LAB, FROM and TO.
func (c endToEnd) settings(shape string) (settings, error) {
	return readSettings(func(name string) string {
		of := map[string]string{"LAB": shape, "FROM": c.from, "TO": c.to}
		if value, ours := of[name]; ours {
			return value
		}
		return os.Getenv(name)
	})
}

// listEndToEnds writes a line per case.
func listEndToEnds(out io.Writer) {
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range endToEnds {
		fmt.Fprintf(lines, "%s\tLAB=%s\t%s to %s\t%s\n", c.name, strings.Join(c.shapes, ","), c.from, c.to, c.shows)
	}
	lines.Flush()
}
