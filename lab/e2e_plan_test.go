package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const samplePlan = `{"schema":2,"from":"v1.35.4","to":"v1.36.3","rungs":[{"stages":[
	{"name":"snapshot","width":1,"lanes":[{"target":"cluster","steps":[{"name":"take-snapshot"}]}]},
	{"name":"control plane","width":1,"lanes":[{"target":"cp-1","steps":[{"name":"install-kubeadm"},{"name":"upgrade-control-plane"}]}]}]}]}`

const sampleEvents = `{"schema":1,"time":"2026-01-01T00:00:00.000Z","kind":"started","stage":"snapshot"}
{"schema":1,"time":"2026-01-01T00:00:00.000Z","kind":"started","stage":"snapshot","target":"cluster"}
{"schema":1,"time":"2026-01-01T00:00:00.000Z","kind":"started","stage":"snapshot","target":"cluster","step":"take-snapshot"}
{"schema":1,"time":"2026-01-01T00:00:02.000Z","kind":"done","stage":"snapshot","target":"cluster","step":"take-snapshot"}
{"schema":1,"time":"2026-01-01T00:00:02.000Z","kind":"done","stage":"snapshot","target":"cluster"}
{"schema":1,"time":"2026-01-01T00:00:02.500Z","kind":"done","stage":"snapshot"}
{"schema":1,"time":"2026-01-01T00:00:03.000Z","kind":"started","stage":"control plane"}
{"schema":1,"time":"2026-01-01T00:00:03.000Z","kind":"done","stage":"control plane","target":"cp-1","step":"install-kubeadm"}
{"schema":1,"time":"2026-01-01T00:00:04.000Z","kind":"done","stage":"control plane","target":"cp-1","step":"upgrade-control-plane"}
{"schema":1,"time":"2026-01-01T00:00:05.000Z","kind":"done","stage":"control plane"}
`

func writeRun(t *testing.T, events string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// without leaves out the lines that contain a piece.
func without(events, piece string) string {
	var kept strings.Builder
	for line := range strings.Lines(events) {
		if !strings.Contains(line, piece) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestPerformedEqualsPlanned(t *testing.T) {
	plan, err := readPlan(samplePlan)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(sampleEvents, "\n")
	swapped := strings.Join(append(append([]string{}, lines[:7]...), lines[8], lines[7]), "")
	extra := sampleEvents + `{"schema":1,"kind":"done","stage":"workers","target":"w-1","step":"drain"}` + "\n"
	for _, test := range []struct {
		name, events, want string
		interrupted        bool
	}{
		{"all of it", sampleEvents, "", false},
		{"a step less", without(sampleEvents, `"step":"upgrade-control-plane"`), "performed [install-kubeadm]", false},
		{"a step less, killed", without(sampleEvents, `"step":"upgrade-control-plane"`), "", true},
		{"a step more", extra, "workers: w-1: planned [], performed [drain]", false},
		{"a step more, killed", extra, "workers: w-1: planned [], performed [drain]", true},
		{"another order", swapped, "performed [upgrade-control-plane install-kubeadm]", false},
		{"another order, killed", swapped, "performed [upgrade-control-plane install-kubeadm]", true},
		{"nothing", "", "take-snapshot", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			events, err := readEvents(writeRun(t, test.events))
			if err != nil {
				t.Fatal(err)
			}
			err = differences(plan.planned(), performed(events), test.interrupted)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("differences = %v, want %q", err, test.want)
			}
		})
	}
}

func TestStages(t *testing.T) {
	plan, err := readPlan(samplePlan)
	if err != nil {
		t.Fatal(err)
	}
	events, err := readEvents(writeRun(t, sampleEvents))
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.stageOrder(events); err != nil {
		t.Error(err)
	}
	if err := plan.stageOrder(events[:6]); err == nil {
		t.Error("a stage that never ended was not noticed")
	}
	times := stageTimes(events)
	if len(times) != 2 || times[0] != (measurement{"stage snapshot", "2.5s"}) || times[1] != (measurement{"stage control plane", "2s"}) {
		t.Errorf("stage times are %v", times)
	}
}

func TestReadEvents(t *testing.T) {
	if events, err := readEvents(writeRun(t, sampleEvents+`{"schema":1,"ki`)); err != nil || len(events) != 10 {
		t.Errorf("a torn last line: %d events, %v, want the 10 whole ones", len(events), err)
	}
	for _, bad := range []string{"{\n", `{"schema":2}` + "\n"} {
		if _, err := readEvents(writeRun(t, sampleEvents+bad)); err == nil || !strings.Contains(err.Error(), "events.jsonl:11") {
			t.Errorf("line %q: %v, want an error with the line's number", bad, err)
		}
	}
}

func TestReadPlanRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{"", "{}", `{"schema":1,"stages":[]}`, `{"schema":2}`} {
		if _, err := readPlan(text); err == nil {
			t.Errorf("%q was taken for a plan", text)
		}
	}
	if plan, err := readPlan(`{"schema":2,"rungs":[]}`); err != nil || len(plan.planned()) != 0 {
		t.Errorf("an empty plan: %v, %v", plan, err)
	}
}

func TestNewRun(t *testing.T) {
	data := t.TempDir()
	known, err := runsOf(data)
	if err != nil || len(known) != 0 {
		t.Fatalf("without a run: %v, %v", known, err)
	}
	if _, err := newRun(data, known); err == nil {
		t.Error("no new run was not noticed")
	}
	want := filepath.Join(data, "runs", "2")
	for _, run := range []string{filepath.Join(data, "runs", "1"), want} {
		if err := os.MkdirAll(run, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := newRun(data, []string{filepath.Join(data, "runs", "1")}); err != nil || got != want {
		t.Errorf("newRun = %s, %v, want %s", got, err, want)
	}
}
