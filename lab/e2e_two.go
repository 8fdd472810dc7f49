package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	exitLocked   = 5
	refusedLimit = 20 * time.Second // to be told who is at work
)

// otherMachine starts a program as on another machine: with a host name and a boot of its own. It stays the same process.
const otherMachine = `hostname laptop-2.lab.test
[ -s "$1" ] || cat /proc/sys/kernel/random/uuid >"$1"
mount --bind "$1" /proc/sys/kernel/random/boot_id
shift
exec "$@"`

// two operators begin at once, each on a machine of their own. One works, the other is told who does. Whoever works is
// killed, first so that only unlock helps, then so that the same command on the same machine takes over at once.
func two(ctx context.Context, b *bed) error {
	return b.twoMachines(ctx, func(ctx context.Context, b *bed) error { return b.takesOver(ctx) })
}

// troubles are those of two, cut and reboot on one rung, one after the other: a climb of many hosts takes its time.
func troubles(ctx context.Context, b *bed) error {
	first, second := b.controlPlanes()[0], b.controlPlanes()[1]
	b.away = second.NodeName
	return b.twoMachines(ctx, func(ctx context.Context, b *bed) error {
		if err := b.killAt(ctx, killPoint{"at-the-first-step", firstStep, 0, nil}); err != nil {
			return err
		}
		trouble := func(run *toolRun, known []string) error {
			if err := b.cutDuringApply(ctx, run, known, first); err != nil {
				return err
			}
			return b.rebootDuringUpgrade(ctx, run, known, second)
		}
		return b.during(ctx, trouble, func(run *toolRun) error {
			return errors.Join(tookOver(run), b.endAfterReboot(ctx, run, second))
		})
	})
}

// twoMachines is a climb that two operators begin, of whom one is killed. It is brought to its end from the other's machine.
func (b *bed) twoMachines(ctx context.Context, finish func(context.Context, *bed) error) error {
	var err error
	if b.operator, err = os.Hostname(); err != nil {
		return err
	}
	other, err := b.onOtherMachine()
	if err != nil {
		return err
	}
	return b.throughout(ctx, func(ctx context.Context) error {
		winner, loser, run, err := race(ctx, b, other)
		if err != nil {
			return err
		}
		if err := winner.killHolder(ctx, loser, run); err != nil {
			return err
		}
		if err := loser.unlocks(ctx, winner, run); err != nil {
			return err
		}
		err = errors.Join(finish(ctx, loser), loser.toolStatus(ctx, "status-at-the-end", "finished", ""))
		b.data = loser.data // the winner was killed before it took a snapshot
		return err
	})
}

// firstStep accepts the start of any step: of a run's first one, files are being brought to hosts.
func firstStep(e toolEvent) bool { return e.Kind == "started" && e.Step != "" }

// onOtherMachine is the same case on another machine, with a data directory of its own.
func (b *bed) onOtherMachine() (*bed, error) {
	text, err := os.ReadFile(b.clusterFile)
	if err != nil {
		return nil, err
	}
	o := *b
	o.operator = "laptop-2.lab.test"
	o.data = filepath.Join(b.dir, "data-of-the-other")
	o.clusterFile = filepath.Join(b.dir, "cluster-of-the-other.yaml")
	o.machine = []string{"unshare", "--uts", "--mount", "sh", "-euc", otherMachine, "sh", filepath.Join(b.scratch, "boot_id")}
	return &o, os.WriteFile(o.clusterFile, []byte(withLine("data:", o.data)(string(text))), 0o600)
}

// race starts both at once, and checks that exactly one of them is refused.
func race(ctx context.Context, a, b *bed) (winner, loser *bed, run *toolRun, err error) {
	var runs []*toolRun
	for _, who := range []*bed{a, b} {
		r, err := who.startTool(ctx, "race-on-"+who.operator, "upgrade", "-f", who.clusterFile, "--yes")
		if err != nil {
			return nil, nil, nil, err
		}
		runs = append(runs, r)
	}
	defer func() {
		for _, r := range runs {
			if err != nil {
				r.cmd.Process.Kill() // one of them is gone, or both
				<-r.ended
			}
		}
	}()
	winner, loser = a, b
	ended, cancel := context.WithTimeoutCause(ctx, refusedLimit, fmt.Errorf("neither was refused within %v", refusedLimit))
	defer cancel()
	select {
	case <-runs[0].ended:
		winner, loser = b, a
		slices.Reverse(runs)
	case <-runs[1].ended:
	case <-ended.Done():
		return nil, nil, nil, context.Cause(ended)
	}
	a.measured.add("refused on "+loser.operator+" after", runs[1].took)
	return winner, loser, runs[0], winner.named(runs[0], runs[1])
}

// named checks that a refused run says who is at work: user, machine, process, and since when.
func (b *bed) named(holder, refused *toolRun) error {
	errs := []error{refused.want(exitLocked)}
	for _, piece := range []string{b.holder() + " is at work", fmt.Sprintf("pid %d", holder.cmd.Process.Pid)} {
		if !strings.Contains(refused.said(), piece) {
			errs = append(errs, fmt.Errorf("the message does not say %q: %s", piece, refused.lastWords()))
		}
	}
	off, err := sinceIn(refused.said(), holder.began)
	if off.Abs() > time.Minute {
		err = fmt.Errorf("the message is %v off when it says since when: %s", off, refused.lastWords())
	}
	return errors.Join(append(errs, err)...)
}

// sinceIn reads from a message since when somebody is at work, and compares it with the time when that began.
func sinceIn(message string, began time.Time) (time.Duration, error) {
	_, since, _ := strings.Cut(message, ", since ")
	since, _, _ = strings.Cut(since, ",")
	at, err := time.ParseInLocation(time.DateTime, since, time.Local)
	if err != nil {
		return 0, fmt.Errorf("the message does not say since when: %w", err)
	}
	return at.Sub(began), nil
}

// holder is what a run on b's machine is called.
func (b *bed) holder() string {
	me, err := user.Current()
	if err != nil {
		return err.Error()
	}
	return me.Username + "@" + b.operator
}

// killHolder lets the winner work until it brings files to a host, has status name it on both machines, and kills it: in
// time before the API server is replaced, so that the next run can read whose lock there is.
func (b *bed) killHolder(ctx context.Context, other *bed, run *toolRun) error {
	if err := b.awaitEvent(ctx, run, nil, firstStep); err != nil {
		return err
	}
	errs := []error{
		b.toolStatus(ctx, "status-on-the-same-machine", "at work", b.holder()),
		other.toolStatus(ctx, "status-on-the-other-machine", "at work", b.holder()),
	}
	return errors.Join(append(errs, run.kill())...)
}

// unlocks checks that a dead run on another machine still keeps this one away, until its lock is removed by its name.
func (b *bed) unlocks(ctx context.Context, other *bed, dead *toolRun) error {
	run, err := b.runTool(ctx, refusedLimit, "refused-by-the-dead", "upgrade", "-f", b.clusterFile, "--yes")
	if err != nil {
		return err
	}
	errs := []error{other.named(dead, run)}
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"unlock-unasked", nil, exitBadFile},
		{"unlock-by-another-name", []string{"--yes-i-know=somebody@else"}, exitBadFile},
		{"unlock", []string{"--yes-i-know=" + other.holder()}, 0},
		{"unlock-again", nil, 0},
	} {
		run, err := b.runTool(ctx, readLimit, c.name, append([]string{"unlock", "-f", b.clusterFile}, c.args...)...)
		if err != nil {
			return err
		}
		errs = append(errs, run.want(c.code))
	}
	errs = append(errs, b.toolStatus(ctx, "status-unlocked", "", ""))
	return errors.Join(errs...)
}

// takesOver goes on where the other was killed, is killed during kubeadm, and goes on at once on the same machine.
func (b *bed) takesOver(ctx context.Context) error {
	point := killPoint{"during-apply", func(e toolEvent) bool { return e.isStep("started", "upgrade-control-plane") }, 5 * time.Second, b.kubeadmRuns}
	if err := b.killAt(ctx, point); err != nil {
		return err
	}
	run, events, err := b.upgrade(ctx, "upgrade-to-the-end")
	if run != nil {
		b.measured.add("run to the end", run.took)
	}
	if err != nil {
		return err
	}
	if len(events) > 0 {
		b.measured.add("taken over, first step after", events[0].Time.Sub(run.began))
	}
	return errors.Join(tookOver(run), b.kubeadmRanOnce(ctx))
}

// tookOver checks that a run says whose lock it took.
func tookOver(run *toolRun) error {
	const says = "taking over the lock of "
	if !strings.Contains(run.said(), says) {
		return fmt.Errorf("%s does not say %q", run.path("out"), says)
	}
	return nil
}

// toolStatus asks the tool where the cluster stands: its state, unless that is empty, and who has the lock, if anybody.
func (b *bed) toolStatus(ctx context.Context, name, state, holder string) error {
	run, err := b.runTool(ctx, readLimit, name, "status", "-f", b.clusterFile, "--output", "json")
	if err != nil {
		return err
	}
	b.measured.add(name, run.took)
	if err := run.want(0); err != nil {
		return err
	}
	var found struct {
		State string
		Lock  *struct{ Text string }
	}
	if err := json.Unmarshal([]byte(run.output()), &found); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case state != "" && found.State != state:
		return fmt.Errorf("%s: the cluster is %q, want %q", name, found.State, state)
	case holder == "" && found.Lock != nil:
		return fmt.Errorf("%s: the lock is held: %s", name, found.Lock.Text)
	case holder != "" && (found.Lock == nil || !strings.Contains(found.Lock.Text, holder)):
		return fmt.Errorf("%s: the lock is not that of %s: %s", name, holder, run.output())
	}
	return nil
}
