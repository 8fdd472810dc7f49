package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// toolPlan is what `kuberung plan --output json` prints. A run keeps one rung of it.
type toolPlan struct {
	Schema   int         `json:"schema"`
	From, To string      // versions with a leading v
	Rungs    []toolRung  `json:"rungs"`
	Stages   []toolStage `json:"-"` // of all rungs, in order
}

type toolRung struct {
	From, To string
	Seconds  int         `json:"seconds"` // about how long it takes
	Stages   []toolStage `json:"stages"`
}

type toolStage struct {
	Name  string     `json:"name"`
	Width int        `json:"width"`
	Lanes []toolLane `json:"lanes"`
}

type toolLane struct {
	Target string `json:"target"`
	Steps  []struct {
		Name string `json:"name"`
	} `json:"steps"`
}

// toolEvent is one line of a run's events.jsonl. Target and Step are empty in the events of a stage, Step in a lane's.
type toolEvent struct {
	Schema              int
	Time                time.Time
	Kind                string
	Stage, Target, Step string
	Text, Error         string
}

// isStep reports whether the event is of this kind and of a step with this name.
func (e toolEvent) isStep(kind, step string) bool { return e.Kind == kind && e.Step == step }

// readPlan parses a plan and refuses one that this code does not know how to read.
func readPlan(text string) (toolPlan, error) {
	var p toolPlan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("the plan is not JSON: %w", err)
	}
	if p.Schema != 2 || p.Rungs == nil {
		return p, fmt.Errorf("the plan has schema %d and rungs %v, want schema 2 and a list", p.Schema, p.Rungs)
	}
	for _, rung := range p.Rungs {
		p.Stages = append(p.Stages, rung.Stages...)
	}
	return p, nil
}

// readEvents parses the events of a run. A last line without an end is left out: the run was killed while writing it.
func readEvents(run string) ([]toolEvent, error) {
	text, err := os.ReadFile(filepath.Join(run, "events.jsonl"))
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	var events []toolEvent
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var e toolEvent
		if err := json.Unmarshal(line, &e); err != nil || e.Schema != 1 {
			return nil, fmt.Errorf("%s/events.jsonl:%d is no event of schema 1: %s", run, i+1, line)
		}
		events = append(events, e)
	}
	return events, nil
}

// runsOf lists the run directories below a data directory, sorted by name; none when there was no run yet.
func runsOf(data string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(data, "runs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var runs []string
	for _, e := range entries {
		if e.IsDir() {
			runs = append(runs, filepath.Join(data, "runs", e.Name()))
		}
	}
	return runs, nil
}

// lanes maps "stage: target" to the names of its steps in order.
type lanes map[string][]string

// planned gives the plan's lanes.
func (p toolPlan) planned() lanes {
	l := lanes{}
	for _, stage := range p.Stages {
		for _, lane := range stage.Lanes {
			for _, step := range lane.Steps {
				key := stage.Name + ": " + lane.Target
				l[key] = append(l[key], step.Name)
			}
		}
	}
	return l
}

// performed gives the lanes of the steps that were brought to their end.
func performed(events []toolEvent) lanes {
	l := lanes{}
	for _, e := range events {
		if e.Kind == "done" && e.Step != "" {
			key := e.Stage + ": " + e.Target
			l[key] = append(l[key], e.Step)
		}
	}
	return l
}

// differences compares what was done with what was planned, lane by lane. A run that was interrupted may have done less,
// but nothing else and in the same order.
func differences(plan, done lanes, interrupted bool) error {
	keys := map[string]bool{}
	for key := range plan {
		keys[key] = true
	}
	for key := range done {
		keys[key] = true
	}
	var found []string
	for key := range keys {
		want, got := plan[key], done[key]
		if interrupted {
			want = want[:min(len(want), len(got))]
		}
		if !slices.Equal(want, got) {
			found = append(found, fmt.Sprintf("%s: planned [%s], performed [%s]", key, strings.Join(want, " "), strings.Join(got, " ")))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return fmt.Errorf("actions differ from the plan: %s", strings.Join(found, "; "))
}

// stageOrder checks that the stages ended in the order in which they were planned.
func (p toolPlan) stageOrder(events []toolEvent) error {
	var want, got []string
	for _, s := range p.Stages {
		want = append(want, s.Name)
	}
	for _, e := range events {
		if e.Kind == "done" && e.Target == "" && e.Step == "" {
			got = append(got, e.Stage)
		}
	}
	if !slices.Equal(want, got) {
		return fmt.Errorf("stages were planned as %q and ended as %q", want, got)
	}
	return nil
}

// stageTimes says how long each stage took, in order.
func stageTimes(events []toolEvent) []measurement {
	begun := map[string]time.Time{}
	var times []measurement
	for _, e := range events {
		switch {
		case e.Target != "" || e.Step != "":
		case e.Kind == "started":
			begun[e.Stage] = e.Time
		case e.Kind == "done" || e.Kind == "failed":
			times = append(times, measurement{"stage " + e.Stage, e.Time.Sub(begun[e.Stage]).Round(100 * time.Millisecond).String()})
		}
	}
	return times
}
