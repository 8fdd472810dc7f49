package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// cut is a climb during which the SSH connections to a control plane are cut twice while kubeadm works on it. The run goes
// on by itself.
func cut(ctx context.Context, b *bed) error {
	first := b.controlPlanes()[0]
	return b.throughout(ctx, func(ctx context.Context) error {
		plan, err := b.plan(ctx, "plan")
		if err != nil {
			return err
		}
		return b.during(ctx, func(run *toolRun, known []string) error { return b.cutDuringApply(ctx, run, known, first) },
			func(run *toolRun) error {
				dir, err := newRun(b.data, nil)
				if err != nil {
					return errors.Join(run.want(0), err)
				}
				events, err := readEvents(dir)
				return errors.Join(run.want(0), err, differences(plan.planned(), performed(events), false), b.kubeadmRanOnce(ctx))
			})
	})
}

// cutDuringApply cuts the connections to a control plane twice between the start and the end of kubeadm there.
func (b *bed) cutDuringApply(ctx context.Context, run *toolRun, known []string, h host) error {
	applies := func(e toolEvent) bool { return e.isStep("started", "upgrade-control-plane") && e.Target == h.Name }
	if err := b.awaitEvent(ctx, run, known, applies); err != nil {
		return err
	}
	for i, wait := range []time.Duration{10 * time.Second, 20 * time.Second} {
		if err := pause(ctx, wait); err != nil {
			return err
		}
		var ended string
		// Between two connections there may be none for a moment.
		err := await(ctx, "a connection to cut", 30*time.Second, func(ctx context.Context) (err error) {
			ended, err = b.endSessions(ctx, h)
			return err
		})
		if err != nil {
			return err
		}
		b.measured.add(fmt.Sprintf("cut %d, %v later, of sshd's processes", i+1, wait), ended)
		if err := b.kubeadmRuns(ctx); err != nil {
			return err
		}
	}
	return nil
}

// endSessions kills the processes of sshd that serve the tool's connections to a host, and returns their ids.
func (b *bed) endSessions(ctx context.Context, h host) (string, error) {
	out, err := b.sh(ctx, h, `found=$(pgrep -f '^sshd: ops') && kill -9 $found && echo $found`)
	if err == nil && strings.TrimSpace(out) == "" {
		err = errors.New("nobody is connected")
	}
	return strings.TrimSpace(out), err
}
