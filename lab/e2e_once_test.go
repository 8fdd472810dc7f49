package main

import (
	"strings"
	"testing"
)

func laneOf(target string, names ...string) toolLane {
	l := toolLane{Target: target}
	for _, name := range names {
		l.Steps = append(l.Steps, struct {
			Name string `json:"name"`
		}{name})
	}
	return l
}

// A worker that already moves in the first rung, or not in the last, is found.
func TestWorkersMoveLast(t *testing.T) {
	small, err := findShape("small")
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{lab: settings{Shape: small}, from: "v1.34.4", to: "v1.36.3"}
	moves := laneOf("worker-1", "drain", "install-kubelet")
	for _, test := range []struct {
		name          string
		first, second []toolStage
		want          string
	}{
		{"at the end", nil, []toolStage{{Name: "workers", Lanes: []toolLane{moves}}}, ""},
		{"files first", []toolStage{{Name: "stage", Lanes: []toolLane{laneOf("worker-1", "stage-files")}}}, []toolStage{{Name: "workers", Lanes: []toolLane{moves}}}, ""},
		{"twice", []toolStage{{Name: "workers", Lanes: []toolLane{moves}}}, []toolStage{{Name: "workers", Lanes: []toolLane{moves}}}, "first rung has steps"},
		{"never", nil, nil, "does not move"},
	} {
		var p toolPlan
		p.Rungs = append(p.Rungs, toolRung{From: "v1.34.4", To: "v1.35.4", Stages: test.first}, toolRung{From: "v1.35.4", To: "v1.36.3", Stages: test.second})
		err := b.workersMoveLast(p, "v1.35.4")
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
