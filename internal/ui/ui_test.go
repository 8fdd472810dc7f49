package ui_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/ui"
)

var update = flag.Bool("update", false, "write the golden files anew")

// run is a run that fails on one worker. Each event comes a number of milliseconds after the one before.
func run() []engine.Event {
	refused := errors.New("evict shop/web-0: budget web allows no disruption")
	now := time.Date(2026, 3, 4, 3, 12, 45, 0, time.UTC)
	var events []engine.Event
	add := func(ms int, e engine.Event) {
		now = now.Add(time.Duration(ms) * time.Millisecond)
		e.Time = now
		events = append(events, e)
	}
	add(0, engine.Event{Kind: engine.Started, Stage: "control-plane-kubelets"})
	add(0, engine.Event{Kind: engine.Started, Stage: "control-plane-kubelets", Target: "cp-1"})
	add(5, engine.Event{Kind: engine.Started, Stage: "control-plane-kubelets", Target: "cp-1", Step: "upgrade-kubelet", Text: "kubelet is v1.35.4"})
	add(900, engine.Event{Kind: engine.Progress, Stage: "control-plane-kubelets", Target: "cp-1", Step: "upgrade-kubelet", Text: "uploaded <1 MiB>\n\tchecked\x1b[2J twice\n"})
	add(440, engine.Event{Kind: engine.Done, Stage: "control-plane-kubelets", Target: "cp-1", Step: "upgrade-kubelet"})
	add(0, engine.Event{Kind: engine.Skipped, Stage: "control-plane-kubelets", Target: "cp-1", Step: "upgrade-crictl"})
	add(83_400, engine.Event{Kind: engine.Done, Stage: "control-plane-kubelets", Target: "cp-1"})
	add(1, engine.Event{Kind: engine.Skipped, Stage: "control-plane-kubelets", Target: "cp-2"})
	add(0, engine.Event{Kind: engine.Done, Stage: "control-plane-kubelets"})
	add(0, engine.Event{Kind: engine.Started, Stage: "workers"})
	add(0, engine.Event{Kind: engine.Started, Stage: "workers", Target: "rack-7-worker-12"})
	add(0, engine.Event{Kind: engine.Started, Stage: "workers", Target: "rack-7-worker-12", Step: "drain-node"})
	add(600_000, engine.Event{Kind: engine.Failed, Stage: "workers", Target: "rack-7-worker-12", Step: "drain-node", Err: refused})
	add(0, engine.Event{Kind: engine.Failed, Stage: "workers", Target: "rack-7-worker-12", Err: refused})
	add(0, engine.Event{Kind: engine.Failed, Stage: "workers", Target: "w-2", Err: errors.New("read facts: w-2: connection refused")})
	add(0, engine.Event{Kind: engine.Pending, Stage: "workers", Target: "w-3"})
	add(0, engine.Event{Kind: engine.Failed, Stage: "workers", Err: refused})
	add(0, engine.Event{Kind: engine.Pending, Stage: "photo"})
	add(0, engine.Event{Kind: engine.Started, Stage: "report"})
	add(0, engine.Event{Kind: engine.Failed, Stage: "report", Err: engine.ErrStopped})
	return events
}

func TestGolden(t *testing.T) {
	var plain, json strings.Builder
	lines, objects := ui.Lines(&plain), ui.JSON(&json)
	for _, e := range run() {
		lines(e)
		objects(e)
	}
	golden(t, "lines.txt", plain.String())
	golden(t, "events.json", json.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", file, d)
	}
}

// full is a writer on a full disk.
type full struct{ writes int }

func (f *full) Write([]byte) (int, error) {
	f.writes++
	return 0, errors.New("no space left on device")
}

func TestAFullDiskStopsNothing(t *testing.T) {
	var a, b full
	lines, objects := ui.Lines(&a), ui.JSON(&b)
	for range 2 {
		e := engine.Event{Kind: engine.Started, Stage: "workers"}
		lines(e)
		objects(e)
	}
	if a.writes != 2 || b.writes != 2 {
		t.Errorf("%d lines and %d objects were tried, want 2 of each in one write", a.writes, b.writes)
	}
}
