package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// blindLimit is how long the nodes may go unseen where an API server is always up, and
	// aloneBlindLimit where the only one is upgraded.
	blindLimit, aloneBlindLimit = 20 * time.Second, 8 * time.Minute
	// afterwards is how long the probe goes on after the run: what the run leaves behind shows then.
	afterwards = 10 * time.Second
)

// climb is the main job: planned, run, proven by our own means, unnoticed by users, and nothing left to do.
func climb(ctx context.Context, b *bed) error {
	return b.throughout(ctx, func(ctx context.Context) error {
		plan, err := b.plan(ctx, "plan")
		if err != nil {
			return err
		}
		if plan.From != b.from || plan.To != b.to {
			return fmt.Errorf("the plan goes from %s to %s, want %s to %s", plan.From, plan.To, b.from, b.to)
		}
		run, events, err := b.upgrade(ctx, "upgrade")
		if run != nil {
			b.measured.add("upgrade", run.took)
		}
		b.measured.lines = append(b.measured.lines, stageTimes(events)...)
		if err != nil {
			return err
		}
		return errors.Join(differences(plan.planned(), performed(events), false), plan.stageOrder(events))
	})
}

// throughout runs drive, which brings the cluster to the target version, between the "before" and the "after" of a case:
// it writes data before and looks for it in the snapshot, watches nodes, Service and API meanwhile, and checks the end
// state and that a second run has nothing to do.
func (b *bed) throughout(ctx context.Context, drive func(context.Context) error) error {
	want, err := b.wanted(ctx)
	if err != nil {
		return err
	}
	content, err := b.writeMark(ctx)
	if err != nil {
		return err
	}
	if want.cordoned, err = b.cordonOne(ctx); err != nil {
		return err
	}
	watch, err := b.watch(ctx, want.cordoned)
	if err != nil {
		return err
	}
	users := b.users(ctx)
	driven := drive(ctx)
	if driven == nil {
		driven = pause(ctx, afterwards)
	}
	errs := []error{driven, users.verdict(b.measured, b.dir, true), b.judge(watch.finish())}
	if driven != nil {
		return errors.Join(errs...)
	}
	errs = append(errs, b.endState(ctx, want), b.snapshots(ctx, content), b.noSecrets(), b.nothingToDo(ctx))
	return errors.Join(errs...)
}

// judge checks what the watcher saw and notes the time that each node was out of service.
func (b *bed) judge(seen *outages) error {
	for _, s := range seen.spells() {
		b.measured.add(s.node+" "+s.why, s.to.Sub(s.from))
	}
	b.measured.add("nodes not seen for at most", seen.blind)
	blind := blindLimit
	if len(b.controlPlanes()) == 1 {
		blind = aloneBlindLimit
	}
	return seen.within(b.batch, blind)
}

// mark is the object that is written before a run and must be in its snapshot.
const mark = "before-the-upgrade"

// writeMark writes random content into the cluster and returns it.
func (b *bed) writeMark(ctx context.Context) (string, error) {
	var random [32]byte
	rand.Read(random[:])
	content := hex.EncodeToString(random[:])
	_, err := b.kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: mark},
		Data:       map[string]string{"content": content},
	}, metav1.CreateOptions{})
	return content, err
}

// cordonOne cordons, where there are several control planes, one that is not the first: a run must leave it so.
func (b *bed) cordonOne(ctx context.Context) ([]string, error) {
	if len(b.controlPlanes()) < 2 {
		return nil, nil
	}
	node := b.controlPlanes()[1].NodeName
	_, err := b.kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	return []string{node}, err
}

// snapshots checks that the run left at least one snapshot, and that the first holds what was written before it.
func (b *bed) snapshots(ctx context.Context, content string) error {
	files, err := filepath.Glob(filepath.Join(b.data, "snapshots", "*.db"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no snapshot in %s", filepath.Join(b.data, "snapshots"))
	}
	var errs []error
	for _, file := range files {
		bytes, err := b.snapshotHolds(ctx, file, "/registry/configmaps/default/"+mark, content)
		errs = append(errs, err)
		b.measured.add("snapshot "+filepath.Base(file), size(bytes))
	}
	return errors.Join(errs...)
}

// noSecrets checks that nothing the run wrote to the operator's disk holds a private key, the snapshots excepted.
func (b *bed) noSecrets() error {
	var errs []error
	err := filepath.WalkDir(b.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".db" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range []string{"PRIVATE KEY", "client-key-data"} {
			if strings.Contains(string(text), secret) {
				errs = append(errs, fmt.Errorf("%s holds a secret (%q)", path, secret))
			}
		}
		return err
	})
	return errors.Join(append(errs, err)...)
}

// nothingToDo checks that on the finished cluster the plan is empty, and that a run says so in seconds and restarts nothing.
func (b *bed) nothingToDo(ctx context.Context) error {
	before, err := b.running(ctx)
	if err != nil {
		return err
	}
	plan, err := b.plan(ctx, "second-plan")
	if err != nil {
		return err
	}
	if len(plan.Stages) > 0 {
		return fmt.Errorf("the finished cluster's plan is not empty: %v", plan.planned())
	}
	run, err := b.runTool(ctx, secondLimit, "second-upgrade", "upgrade", "-f", b.clusterFile, "--yes")
	if err != nil {
		return err
	}
	b.measured.add("second upgrade", run.took)
	after, err := b.running(ctx)
	return errors.Join(run.want(0), err, sameRunning(before, after))
}
