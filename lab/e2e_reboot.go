package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// rebooted is a climb during which a control plane reboots while kubeadm works on it. The run goes on or says clearly what
// it could not do; the same command then comes to the same end.
func rebooted(ctx context.Context, b *bed) error {
	h := b.controlPlanes()[1] // the second: kubeadm's own "apply" is done, and two thirds of the work are ahead
	b.away = h.NodeName
	return b.throughout(ctx, func(ctx context.Context) error {
		return b.during(ctx, func(run *toolRun, known []string) error { return b.rebootDuringUpgrade(ctx, run, known, h) },
			func(run *toolRun) error { return b.endAfterReboot(ctx, run, h) })
	})
}

// during starts the upgrade, does trouble to it, waits for its end, and judges that.
func (b *bed) during(ctx context.Context, trouble func(run *toolRun, known []string) error, judge func(*toolRun) error) error {
	known, err := runsOf(b.data)
	if err != nil {
		return err
	}
	run, err := b.startTool(ctx, "upgrade", "upgrade", "-f", b.clusterFile, "--yes")
	if err != nil {
		return err
	}
	if err := trouble(run, known); err != nil {
		run.cmd.Process.Kill() // it may be gone; the error that is returned says what was tried
		<-run.ended
		return err
	}
	<-run.ended
	b.measured.add("upgrade", fmt.Sprintf("%v, exit code %d", run.took.Round(time.Second), run.code()))
	return judge(run)
}

// rebootDuringUpgrade reboots h while kubeadm works on it.
func (b *bed) rebootDuringUpgrade(ctx context.Context, run *toolRun, known []string, h host) error {
	works := func(e toolEvent) bool { return e.isStep("started", "upgrade-control-plane") && e.Target == h.Name }
	if err := b.awaitEvent(ctx, run, known, works); err != nil {
		return err
	}
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	return b.reboot(ctx, h)
}

// endAfterReboot judges the end of a run under which h was rebooted, and brings the climb to its end.
func (b *bed) endAfterReboot(ctx context.Context, run *toolRun, h host) error {
	if run.code() == 0 {
		return nil
	}
	said := run.read("err")
	if !strings.Contains(said, h.Name) || !strings.Contains(said, "To go on from here: ") {
		return fmt.Errorf("the error does not name %s and say how to go on: %s", h.Name, said)
	}
	b.measured.add("it said", strings.Join(strings.Fields(said), " "))
	again, _, err := b.upgrade(ctx, "upgrade-to-the-end")
	if again != nil {
		b.measured.add("rerun", again.took)
	}
	return err
}

// reboot reboots a host on which kubeadm is at work, and returns when Docker has started it again.
func (b *bed) reboot(ctx context.Context, h host) error {
	if _, err := b.sh(ctx, h, "pgrep -x kubeadm"); err != nil {
		return fmt.Errorf("kubeadm is not running on %s before the reboot: %w", h.Name, err)
	}
	before, err := h.booted(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := h.exec(ctx, "systemctl", "reboot", "--no-block"); err != nil {
		return err
	}
	err = await(ctx, h.Name+" comes back", 3*time.Minute, func(ctx context.Context) error {
		after, err := h.booted(ctx)
		if err == nil && !after.After(before) {
			err = errors.New("it has not gone down yet")
		}
		return err
	})
	b.measured.add(h.Name+" down for", time.Since(began))
	return err
}
