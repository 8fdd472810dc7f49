package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/steps"
)

// The same clusters that steps gives as data, as people read them.
func TestStatusForPeople(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	files, err := filepath.Glob("../../steps/testdata/status/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("there are %d, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s steps.Status
			if err := json.Unmarshal(data, &s); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			writeStatus(&out, s, "prod.yaml")
			golden(t, "status-"+name+".txt", out.String())
			for line := range strings.Lines(out.String()) {
				if words := strings.Fields(line); len(strings.TrimRight(line, "\n")) > 80 && len(words) > 2 {
					t.Errorf("too wide for a terminal: %s", line)
				}
			}
			if err := untold(s); (err != nil) != (name == "no-api") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestStatusInJSON(t *testing.T) {
	var out strings.Builder
	if err := writeStatusJSON(&out, steps.Status{Cluster: "prod", State: steps.Finished}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got["schema"] != 1.0 || got["state"] != "finished" || got["lock"] != nil {
		t.Errorf("%v, %v in\n%s", err, got, out.String())
	}
}

// A climb of several rungs, and a host with something left over that a later one needs.
func TestLeftOfSeveralRungs(t *testing.T) {
	h := steps.HostStatus{Left: []steps.Left{
		{To: "v1.35.4", Part: "control plane"}, {To: "v1.35.4", Part: "kubelet"}, {To: "v1.36.3", Part: "control plane"},
	}}
	if got, want := leftLine(steps.Status{}, h), "control plane (2 rungs), kubelet"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A cluster that cannot be asked is told as far as it can be, and the code says that it could not be told.
func TestStatusOfAClusterThatCannotBeAsked(t *testing.T) {
	s := newSite(t, clusterFile(closedPort(t)))
	got := try(t, "", "status", "-f", s.file)
	if got.code != codeFailed || !strings.Contains(got.out, "cp-1") || !strings.Contains(got.out, "connection refused") ||
		!strings.Contains(got.err, "where the cluster stands could not be told") {
		t.Errorf("%d\n%s%s", got.code, got.out, got.err)
	}
	got = try(t, "", "status", "-f", s.file, "-o", "json")
	var answer struct {
		State   steps.State
		Unasked []string
	}
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil || got.code != codeFailed || answer.State != steps.Untold || len(answer.Unasked) != 1 {
		t.Errorf("%d, %v, %+v in\n%s", got.code, err, answer, got.out)
	}
	if err := untold(steps.Status{State: steps.Untold, Unasked: []string{"w-1"}}); err != nil {
		t.Error(errors.Join(errors.New("a host that is down is part of the answer"), err))
	}
}
