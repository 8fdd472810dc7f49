package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// kills is how often the tool is killed on one rung.
const kills = 20

// lookTime is about how long a run looks at the cluster before it goes on with the work.
const lookTime = 4 * time.Second

// killedAnywhere is a climb whose tool is killed again and again, at moments that are drawn from a seed, and started again
// each time. SEED in the environment draws the same moments again.
func killedAnywhere(ctx context.Context, b *bed) error {
	seed, err := seedOf(os.Getenv("SEED"))
	if err != nil {
		return err
	}
	b.measured.add("seed", seed)
	say("the moments of the kills are drawn from SEED=%d", seed)
	return b.throughout(ctx, func(ctx context.Context) error {
		plan, err := b.plan(ctx, "plan")
		if err != nil {
			return err
		}
		var last time.Duration
		for i, life := range lives(seed, kills, time.Duration(plan.seconds())*time.Second) {
			if last, err = b.killAfter(ctx, i+1, life); err != nil {
				return err
			}
		}
		run, _, err := b.upgrade(ctx, "upgrade-to-the-end")
		if run != nil {
			b.measured.add(fmt.Sprintf("rerun after kill %d, to the end", kills), run.took)
		}
		b.measured.add("killed runs worked for", last)
		return errors.Join(err, b.kubeadmRanOnce(ctx))
	})
}

// seedOf reads a seed, or draws one.
func seedOf(text string) (uint64, error) {
	if text == "" {
		return uint64(time.Now().UnixNano()), nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("SEED: %w", err)
	}
	return seed, nil
}

// seconds is about how long the whole plan takes.
func (p toolPlan) seconds() int {
	sum := 0
	for _, rung := range p.Rungs {
		sum += rung.Seconds
	}
	return sum
}

// lives draws how long each of n runs lives. Together they work for about as long as the whole takes, less a fifth: the
// last kill must not come after the end.
func lives(seed uint64, n int, whole time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 0))
	mean := lookTime + whole*4/5/time.Duration(n)
	var drawn []time.Duration
	for range n {
		drawn = append(drawn, time.Second+time.Duration(random.Int64N(int64(2*(mean-time.Second)))))
	}
	return drawn
}

// killAfter starts the upgrade, kills it when its life is over, and notes where that was. The sum of all lives is returned.
func (b *bed) killAfter(ctx context.Context, number int, life time.Duration) (time.Duration, error) {
	known, err := runsOf(b.data)
	if err != nil {
		return 0, err
	}
	run, err := b.startTool(ctx, fmt.Sprintf("upgrade-killed-%02d", number), "upgrade", "-f", b.clusterFile, "--yes")
	if err != nil {
		return 0, err
	}
	select {
	case <-run.ended:
		return 0, fmt.Errorf("run %d of %d exited %d before it could be killed: %s", number, kills, run.code(), run.lastWords())
	case <-time.After(life):
	case <-ctx.Done():
		<-run.ended
		return 0, context.Cause(ctx)
	}
	if err := run.kill(); err != nil {
		return 0, err
	}
	where, err := b.killedIn(known)
	b.lived += run.took
	line := fmt.Sprintf("%v after its start, %s", run.took.Round(100*time.Millisecond), where)
	say("kill %d: %s", number, line)
	b.measured.add(fmt.Sprintf("kill %d", number), line)
	return b.lived, err
}

// killedIn says in which step the newest run was killed, and checks that it kept to its plan.
func (b *bed) killedIn(known []string) (string, error) {
	if runs, err := runsOf(b.data); err != nil || len(runs) == len(known) {
		return "looking at the cluster", err
	}
	dir, err := newRun(b.data, known)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "plan.json")); errors.Is(err, os.ErrNotExist) {
		return "writing its plan", nil
	}
	events, err := readEvents(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "before its first step", nil
	}
	if err != nil {
		return "", err
	}
	return under(events), b.keptToPlan(known)
}

// under names the steps that were under way at the end of events, or the last one that was done.
func under(events []toolEvent) string {
	var open []string
	last := ""
	for _, e := range events {
		name := fmt.Sprintf("%s: %s: %s", e.Stage, e.Target, e.Step)
		switch {
		case e.Step == "":
		case e.Kind == "started":
			open = append(open, name)
		case e.Kind == "done" || e.Kind == "failed":
			open = slices.DeleteFunc(open, func(other string) bool { return other == name })
			last = name
		}
	}
	switch {
	case len(open) > 0:
		return fmt.Sprintf("in %v", open)
	case last == "":
		return "before its first step"
	}
	return "after " + last
}
