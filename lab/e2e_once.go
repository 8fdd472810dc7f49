package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// once is a climb over two minors on which the worker moves a single time: from its old kubelet to the newest, after its
// control plane has gone both rungs.
func once(ctx context.Context, b *bed) error {
	const between = "v1.35.4"
	if err := b.buildBetween(ctx, between); err != nil {
		return err
	}
	if err := b.moveWorkersOnce(); err != nil {
		return err
	}
	if err := b.oldFlagThere(ctx); err != nil {
		return err
	}
	return b.throughout(ctx, func(ctx context.Context) error {
		plan, err := b.plan(ctx, "plan")
		if err != nil {
			return err
		}
		if err := b.workersMoveLast(plan, between); err != nil {
			return err
		}
		rungs, err := b.climbRungs(ctx, plan)
		if err != nil {
			return err
		}
		return errors.Join(b.drainedOnce(rungs), b.kubeletsAlike(ctx))
	})
}

// buildBetween builds the artifacts of a version that the climb leads over.
func (b *bed) buildBetween(ctx context.Context, version string) error {
	r, err := findRelease(version)
	if err != nil {
		return err
	}
	unlock, err := b.lab.Cache.lock(ctx, "build.lock")
	if err != nil {
		return err
	}
	defer unlock()
	_, err = newLab(b.lab).builder.artifacts(ctx, r)
	return err
}

// moveWorkersOnce makes a cluster file that says so, and goes on with it.
func (b *bed) moveWorkersOnce() error {
	text, err := os.ReadFile(b.clusterFile)
	if err != nil {
		return err
	}
	file := with("workers:\n", "workers:\n  climb: once\n")(string(text))
	if file == string(text) {
		return errors.New("the cluster file says nothing of workers: its format is not the one expected here")
	}
	b.clusterFile = filepath.Join(b.dir, "once.yaml")
	return os.WriteFile(b.clusterFile, []byte(file), 0o600)
}

// oldFlag is what kubeadm of v1.35 takes out of kubeadm-flags.env, and no other kubeadm.
const oldFlag = "--pod-infra-container-image"

// oldFlagThere checks that the workers have it to begin with: it proves nothing otherwise that it is gone in the end.
func (b *bed) oldFlagThere(ctx context.Context) error {
	for _, h := range b.lab.Shape.with(worker) {
		if _, err := b.sh(ctx, h, "grep -e "+oldFlag+" /var/lib/kubelet/kubeadm-flags.env"); err != nil {
			return fmt.Errorf("the kubelet of %s has no %s before the climb: %w", h.Name, oldFlag, err)
		}
	}
	return nil
}

// workersMoveLast checks that there are two rungs, and that workers get nothing but files before the last.
func (b *bed) workersMoveLast(p toolPlan, between string) error {
	if len(p.Rungs) != 2 {
		return fmt.Errorf("the plan has %d rungs, want 2", len(p.Rungs))
	}
	first, second := p.Rungs[0], p.Rungs[1]
	if way := []string{first.From, first.To, second.From, second.To}; !slices.Equal(way, []string{b.from, between, between, b.to}) {
		return fmt.Errorf("the rungs lead over %v, want %s, %s and %s", way, b.from, between, b.to)
	}
	before := toolPlan{Stages: first.Stages}.planned()
	after := toolPlan{Stages: second.Stages}.planned()
	for _, h := range b.lab.Shape.with(worker) {
		for lane := range before {
			if stage, target, _ := strings.Cut(lane, ": "); target == h.Name && stage != "stage" {
				return fmt.Errorf("the first rung has steps for the worker: %s: %v", lane, before[lane])
			}
		}
		if steps := after["workers: "+h.Name]; !slices.Contains(steps, "drain") || !slices.Contains(steps, "install-kubelet") {
			return fmt.Errorf("the second rung does not move the kubelet of %s: %v", h.Name, steps)
		}
	}
	return nil
}

// climbRungs runs an upgrade of several rungs, checks that each did what was planned, and returns the events of each.
func (b *bed) climbRungs(ctx context.Context, plan toolPlan) ([][]toolEvent, error) {
	run, err := b.runTool(ctx, 2*upgradeLimit, "upgrade", "upgrade", "-f", b.clusterFile, "--yes")
	if err != nil {
		return nil, err
	}
	b.measured.add("upgrade", run.took)
	records, err := runsOf(b.data)
	errs := []error{err, run.want(0)}
	if len(records) != len(plan.Rungs) {
		errs = append(errs, fmt.Errorf("%d records of runs, want one for each of %d rungs", len(records), len(plan.Rungs)))
	}
	var rungs [][]toolEvent
	for i, record := range records[:min(len(records), len(plan.Rungs))] { // their names are their times
		events, err := readEvents(record)
		rung := toolPlan{Stages: plan.Rungs[i].Stages}
		errs = append(errs, err, differences(rung.planned(), performed(events), false), rung.stageOrder(events))
		for _, stage := range stageTimes(events) {
			b.measured.add(fmt.Sprintf("rung %d, %s", i+1, stage.name), stage.value)
		}
		rungs = append(rungs, events)
	}
	return rungs, errors.Join(errs...)
}

// drainedOnce checks that each worker was drained a single time on the whole way.
func (b *bed) drainedOnce(rungs [][]toolEvent) error {
	var errs []error
	for _, h := range b.lab.Shape.with(worker) {
		drains := 0
		for _, e := range slices.Concat(rungs...) {
			if e.Target == h.Name && e.isStep("done", "drain") {
				drains++
			}
		}
		if drains != 1 {
			errs = append(errs, fmt.Errorf("%s was drained %d times, want once", h.Name, drains))
		}
	}
	return errors.Join(errs...)
}

// kubeletsAlike compares what kubeadm keeps of a kubelet on the workers with the same of a control plane, which went every
// rung: but for the node's name nothing may differ.
func (b *bed) kubeletsAlike(ctx context.Context) error {
	want, err := b.kubeletFiles(ctx, b.controlPlanes()[0])
	if err != nil {
		return err
	}
	errs := []error{}
	if strings.Contains(want, oldFlag) {
		errs = append(errs, errors.New("a control plane that went every rung still has "+oldFlag))
	}
	for _, h := range b.lab.Shape.with(worker) {
		got, err := b.kubeletFiles(ctx, h)
		if err == nil && got != want {
			err = fmt.Errorf("the kubelet of %s, which moved once, is not configured like one that went every rung: %s", h.Name, lineDifference(want, got))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// kubeletFiles are the files by which kubeadm configures a kubelet, with a word in place of the node's name.
func (b *bed) kubeletFiles(ctx context.Context, h host) (string, error) {
	text, err := b.sh(ctx, h, "cd /var/lib/kubelet && for file in kubeadm-flags.env config.yaml instance-config.yaml; do"+
		" echo \"$file:\"; [ ! -e $file ] || cat $file; done")
	return strings.ReplaceAll(text, h.NodeName, "NODE"), err
}
