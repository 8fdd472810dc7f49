package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// killPoint is a moment at which the tool is killed.
type killPoint struct {
	name   string
	at     func(e toolEvent) bool      // the event that is waited for
	after  time.Duration               // and how long after it
	midway func(context.Context) error // checks that the kill fell where it was meant to; may be nil
}

// killed is a climb whose tool is killed three times, and which still comes to the same end.
func killed(ctx context.Context, b *bed) error {
	return b.throughout(ctx, func(ctx context.Context) error {
		points := []killPoint{
			{"during-apply", func(e toolEvent) bool { return e.isStep("started", "upgrade-control-plane") }, 5 * time.Second, b.kubeadmRuns},
			{"during-a-drain", func(e toolEvent) bool { return e.isStep("started", "drain") }, 2 * time.Second, nil},
			{"after-a-cordon", nil, 0, nil},
		}
		for _, p := range points {
			if p.at == nil {
				fresh, err := b.freshCordon(ctx)
				if err != nil {
					return err
				}
				p.at = fresh
			}
			if err := b.killAt(ctx, p); err != nil {
				return fmt.Errorf("killing %s: %w", p.name, err)
			}
		}
		plan, err := b.plan(ctx, "plan-of-the-rest")
		if err != nil {
			return err
		}
		run, events, err := b.upgrade(ctx, "upgrade-to-the-end")
		if run != nil {
			b.measured.add("run to the end", run.took)
		}
		if err != nil {
			return err
		}
		return errors.Join(differences(plan.planned(), performed(events), false), b.kubeadmRanOnce(ctx))
	})
}

// killAt starts the upgrade and kills it at the point.
func (b *bed) killAt(ctx context.Context, p killPoint) error {
	known, err := runsOf(b.data)
	if err != nil {
		return err
	}
	run, err := b.startTool(ctx, "upgrade-killed-"+p.name, "upgrade", "-f", b.clusterFile, "--yes")
	if err != nil {
		return err
	}
	if err := b.awaitEvent(ctx, run, known, p.at); err != nil {
		run.cmd.Process.Kill() // it may be gone; the error that is returned says what was waited for
		<-run.ended
		return err
	}
	if err := pause(ctx, p.after); err != nil {
		return err
	}
	if err := run.kill(); err != nil {
		return err
	}
	b.measured.add("killed "+p.name+" after", run.took)
	err = b.keptToPlan(known)
	if p.midway != nil {
		err = errors.Join(err, p.midway(ctx))
	}
	return err
}

// keptToPlan checks that the newest run, which was killed, did nothing but the beginning of the plan in its own record.
func (b *bed) keptToPlan(known []string) error {
	dir, err := newRun(b.data, known)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "plan.json"))
	if err != nil {
		return err
	}
	plan, err := readPlan(string(text))
	if err != nil {
		return err
	}
	events, err := readEvents(dir)
	if err != nil {
		return err
	}
	return differences(plan.planned(), performed(events), true)
}

// kubeadmRuns checks that kubeadm is under way on the first control plane although the tool is gone.
func (b *bed) kubeadmRuns(ctx context.Context) error {
	first := b.controlPlanes()[0]
	if _, err := b.sh(ctx, first, "pgrep -x kubeadm"); err != nil {
		return fmt.Errorf("kubeadm is not running after the tool was killed: %w", err)
	}
	return nil
}

// awaitEvent waits until the run has written an event that at accepts.
func (b *bed) awaitEvent(ctx context.Context, run *toolRun, known []string, at func(toolEvent) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, upgradeLimit, errors.New("the event to kill at did not come"))
	defer cancel()
	for {
		if dir, err := newRun(b.data, known); err == nil {
			events, err := readEvents(dir)
			for _, e := range events {
				if at(e) {
					return nil
				}
			}
			if err != nil && run.gone() {
				return err
			}
		}
		if run.gone() {
			return fmt.Errorf("%s exited %d before it could be killed: %s", run.name, run.code(), run.lastWords())
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %s", err, run.lastWords())
		}
	}
}

// gone reports whether the process has ended.
func (r *toolRun) gone() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// freshCordon accepts the end of the cordon of a node that is schedulable now.
func (b *bed) freshCordon(ctx context.Context) (func(toolEvent) bool, error) {
	nodes, err := b.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	schedulable := map[string]bool{}
	for _, n := range nodes.Items {
		schedulable[n.Name] = !n.Spec.Unschedulable
	}
	targets := map[string]bool{}
	for _, h := range b.nodes {
		targets[h.Name] = schedulable[h.NodeName]
	}
	return func(e toolEvent) bool { return e.isStep("done", "cordon") && targets[e.Target] }, nil
}

// kubeadmRanOnce checks on every host that kubeadm was started once. It counts what kubeadm itself leaves behind: each run
// keeps the kubelet's configuration that it replaces in a folder of its own, and on a control plane the manifests too.
func (b *bed) kubeadmRanOnce(ctx context.Context) error {
	var errs []error
	for _, h := range b.nodes {
		kinds := []string{"kubelet-config"}
		if h.ControlPlane() {
			kinds = append(kinds, "backup-manifests")
		}
		for _, kind := range kinds {
			out, err := b.sh(ctx, h, "find /etc/kubernetes/tmp -maxdepth 1 -name 'kubeadm-"+kind+"*' | wc -l")
			if err != nil {
				errs = append(errs, err)
			} else if runs := strings.TrimSpace(out); runs != "1" {
				errs = append(errs, fmt.Errorf("%s: runs of kubeadm left %s folders of the kind %s, want one run", h.Name, runs, kind))
			}
		}
	}
	return errors.Join(errs...)
}
