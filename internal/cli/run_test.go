package cli

import (
	"context"
	"encoding/json"
	"errors"
	commandline "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

var update = commandline.Bool("update", false, "write the golden files anew")

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

// document is a climb of one rung with a few stages.
func document() planDocument {
	install := engine.OutlineStep{Name: "install-kubelet", Does: "replace kubelet", Why: "kubelet is v1.35.4"}
	drain := engine.OutlineStep{Name: "drain", Does: "evict the pods & wait"}
	lane := func(target string) engine.OutlineLane {
		return engine.OutlineLane{Target: target, Steps: []engine.OutlineStep{drain, install}}
	}
	stage := func(name string, width, seconds int, lanes ...engine.OutlineLane) steps.StageOutline {
		return steps.StageOutline{OutlineStage: engine.OutlineStage{Name: name, Width: width, Lanes: lanes}, Seconds: seconds}
	}
	doc := planDocument{Schema: 2, From: "v1.35.4", To: "v1.36.3"}
	doc.add(steps.RungOutline{From: "v1.35.4", To: "v1.36.3", Seconds: 3750, Stages: []steps.StageOutline{
		stage("snapshot", 1, 10, engine.OutlineLane{Target: "cluster", Steps: []engine.OutlineStep{{Name: "take-snapshot", Does: "save etcd"}}}),
		stage("control-plane kubelets", 1, 140, lane("cp-1"), lane("control-plane-2")),
		stage("workers", 5, 3600, lane("w-1"), lane("w-2")),
		stage("last", 2, 0, lane("w-3"), lane("w-4"), lane("w-5")),
	}, Restarts: []steps.Restart{{What: "kubelet", Hosts: []string{"cp-1", "control-plane-2"}}},
		Waiting: []steps.Waiting{{Host: "w-6", Why: "everything on it is at v1.36.3"}}})
	doc.Costs = steps.Costs{APIAway: 60, Snapshots: "/srv/prod-data/snapshots"}
	for i := range 12 {
		doc.Costs.Losses = append(doc.Costs.Losses, steps.Loss{Host: "w-1", Pod: fmt.Sprintf("shop/db-%d", i), Why: []string{"emptyDir"}})
	}
	return doc
}

// climbOf is a climb of one rung, to the target of clusterFile.
func climbOf(p engine.Plan[steps.Facts]) []steps.Rung {
	return []steps.Rung{{From: "v1.35.4", To: "v1.36.3", Plan: p}}
}

// nobodyAsked is for runs that have nothing to ask.
func nobodyAsked(string) error { return errors.New("somebody was asked") }

func TestPlanDocument(t *testing.T) {
	var text, object strings.Builder
	document().write(&text, "prod")
	golden(t, "plan.txt", text.String())
	if err := writeJSON(&object, document()); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", object.String())
}

func TestEmptyPlanDocument(t *testing.T) {
	doc := newPlanDocument(&config.Cluster{Target: "v1.36.3"}, steps.Facts{Cluster: steps.ClusterFacts{KubeadmVersion: "v1.36.3"}}, nil)
	var text, object strings.Builder
	doc.write(&text, "prod")
	if got, want := text.String(), "prod is at v1.36.3: nothing to do.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := writeJSON(&object, doc); err != nil {
		t.Fatal(err)
	}
	want := `{"schema":2,"from":"v1.36.3","to":"v1.36.3","seconds":0,"rungs":[],"costs":{"losses":[],"apiAwaySeconds":0,"snapshots":""}}`
	if got := strings.Join(strings.Fields(object.String()), ""); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFindings(t *testing.T) {
	found := []steps.Finding{
		{Check: "nodes-ready", Where: "cluster", Block: true, Text: "node a is not Ready:\nno network", Fix: "repair it,\nor <remove> it"},
		{Check: "nodes-ready", Where: "cluster", Text: "node b is cordoned", Fix: "uncordon it"},
	}
	var text, object strings.Builder
	writeFindings(&text, found)
	golden(t, "findings.txt", text.String())
	if err := writeFindingsJSON(&object, found); err != nil {
		t.Fatal(err)
	}
	golden(t, "findings.json", object.String())
	object.Reset()
	if err := writeFindingsJSON(&object, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(strings.Fields(object.String()), ""), `{"schema":1,"findings":[]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What a machine reads of a check is one object, findings or not, and the exit code says the rest.
func TestCheckInJSON(t *testing.T) {
	s := newSite(t, clusterFile(closedPort(t)))
	got := try(t, "", "check", "-f", s.file, "--output", "json")
	var answer struct {
		Schema   int
		Findings []steps.Finding
	}
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil {
		t.Fatalf("%v in %s", err, got.out)
	}
	if got.code != codeCheck || answer.Schema != 1 || len(answer.Findings) != 3 || answer.Findings[0].Check != "host-reachable" || !answer.Findings[0].Block {
		t.Errorf("code %d, findings %+v", got.code, answer.Findings)
	}
}

// stopPlan is a plan of two steps that asks nobody.
func stopPlan() engine.Plan[steps.Facts] {
	step := engine.Step[steps.Facts]{Name: "await-nothing", Does: "wait", Run: func(context.Context, steps.Facts, engine.Logf) error { return nil }}
	return engine.Plan[steps.Facts]{{Name: "gates", Width: 1, Lanes: []engine.Lane[steps.Facts]{{Target: "cluster", Work: []engine.Step[steps.Facts]{step}}}}}
}

// A run leaves the plan, the log as it was shown and every event, for its owner's eyes only.
func TestTheRecordOfARun(t *testing.T) {
	c, err := config.Parse("prod.yaml", []byte(clusterFile(1)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := steps.Open(c, nil)
	defer s.Close()
	stop := make(chan struct{})
	close(stop)
	var out strings.Builder
	err = run(t.Context(), Process{Out: &out, Stop: stop}, c, s, climbOf(stopPlan()), nobodyAsked)
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != codeStopped {
		t.Fatalf("error is %v, want exit code 4", err)
	}
	want := "stopped, work remains\n  the cluster could not be asked\nNothing was undone. To go on from here: kuberung upgrade -f prod.yaml --to v1.36.3"
	if err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}

	runs, err := filepath.Glob(filepath.Join(c.Data, "runs", "*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("records are %q, %v", runs, err)
	}
	if !strings.Contains(out.String(), "The record of this run: "+runs[0]+"\n") {
		t.Errorf("the record is not named in\n%s", out.String())
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, "plan.json": 0o600, "log": 0o600, "events.jsonl": 0o600} {
		info, err := os.Stat(filepath.Join(runs[0], name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v, want %v", name, info.Mode(), err, mode)
		}
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(runs[0], name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var kept planDocument
	if err := json.Unmarshal([]byte(read("plan.json")), &kept); err != nil {
		t.Fatal(err)
	}
	promised := planDocument{Schema: 2, From: "v1.35.4", To: "v1.36.3", Costs: steps.Costs{Losses: []steps.Loss{}}}
	promised.add(climbOf(stopPlan())[0].Outline())
	if d := cmp.Diff(promised, kept); d != "" {
		t.Errorf("the plan kept (-want +got):\n%s", d)
	}
	if log := read("log"); !strings.HasSuffix(out.String(), log) || !strings.Contains(log, "not started") {
		t.Errorf("the log is\n%s\nshown was\n%s", log, out.String())
	}
	events := strings.Split(strings.TrimSpace(read("events.jsonl")), "\n")
	if len(events) != 3 { // the stage starts, the lane is pending, the stage fails
		t.Errorf("events are %q", events)
	}
	for _, line := range events {
		if !json.Valid([]byte(line)) {
			t.Errorf("%s is no JSON", line)
		}
	}
}

// finished are the facts of the cluster in clusterFile, all of it at the target.
func finished() steps.Facts {
	h := steps.Host{
		Name: "cp-1", Role: config.ControlPlane, NodeName: "node-a", APIVersion: "v1.36.3",
		Binaries: map[string]steps.Binary{"kubelet": {Path: "/usr/bin/kubelet", Version: "v1.36.3"}}, Manifests: map[string]steps.Manifest{},
	}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		h.Manifests[component] = steps.Manifest{Image: "registry.k8s.io/" + component + ":v1.36.3"}
	}
	return steps.Facts{Target: "v1.36.3", Hosts: map[string]steps.Host{"cp-1": h}, Cluster: steps.ClusterFacts{
		KubeadmVersion: "v1.36.3", Nodes: map[string]steps.Node{"node-a": {Name: "node-a", Kubelet: "v1.36.3", Ready: true}},
	}}
}

// After the last step only a look that leaves nothing to do says that the cluster is at the target.
func TestArrived(t *testing.T) {
	c, err := config.Parse("prod.yaml", []byte(clusterFile(1)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("connection refused")
	tests := []struct {
		name   string
		change func(*steps.Facts)
		code   int
		want   string
		out    string
	}{
		{"all is done", func(*steps.Facts) {}, codeDone, "", ""},
		{"the cluster does not answer", func(f *steps.Facts) { f.Cluster = steps.ClusterFacts{Err: lost} }, codeFailed,
			"every step is done, but the cluster could not be asked once more: connection refused", ""},
		{"a host does not answer", func(f *steps.Facts) { f.Hosts["cp-1"] = steps.Host{Err: lost} }, codeFailed,
			"every step is done, but cp-1 could not be asked once more: connection refused", ""},
		{"kubelet put back meanwhile", func(f *steps.Facts) { f.Cluster.Nodes["node-a"] = steps.Node{Name: "node-a", Kubelet: "v1.35.4"} }, codeStopped,
			"every planned step is done, but meanwhile there is more to do, as listed: run the same command again",
			"restart the kubelet; the running kubelet is v1.35.4\n"},
		{"an add-on still on its way", func(f *steps.Facts) { f.Cluster.Rollout = "kube-proxy is new on 1 of 2 nodes" }, codeStopped,
			"every planned step is done, but meanwhile there is more to do, as listed: run the same command again",
			"wait until kube-proxy and CoreDNS have rolled out everywhere and DNS answers\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := finished()
			tt.change(&f)
			var out strings.Builder
			err := arrived(Process{Out: &out}, c, f)
			if got, text := codeOf(err); got != tt.code || text != tt.want {
				t.Errorf("got %d, %q, want %d, %q", got, text, tt.code, tt.want)
			}
			if !strings.Contains(out.String(), tt.out) || tt.out == "" && out.String() != "" {
				t.Errorf("said\n%s\nwant %q in it", out.String(), tt.out)
			}
		})
	}
}

// codeOf gives the exit code and the text of what a command returns.
func codeOf(err error) (int, string) {
	if err == nil {
		return codeDone, ""
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code, err.Error()
	}
	return codeFailed, err.Error()
}

// A run in which nothing failed asks once more before it says that the cluster is at the target.
func TestARunLooksOnceMore(t *testing.T) {
	c, err := config.Parse("prod.yaml", []byte(clusterFile(closedPort(t))), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := steps.Open(c, nil)
	defer s.Close()
	var out strings.Builder
	err = run(t.Context(), Process{Out: &out}, c, s, climbOf(nil), nobodyAsked)
	code, text := codeOf(err)
	if code != codeFailed || !strings.HasPrefix(text, "every step is done, but cp-1 could not be asked once more: ") {
		t.Errorf("got %d, %q", code, text)
	}
	if strings.Contains(out.String(), "prod is at") {
		t.Errorf("it says\n%s", out.String())
	}
}

// Two runs never share a record, and none is ever written over.
func TestRecordsAreNeverShared(t *testing.T) {
	data, now := t.TempDir(), time.Date(2026, 12, 1, 0, 52, 24, 7e6, time.FixedZone("", 3600))
	first, err := newRecord(data, now, document())
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if want := filepath.Join(data, "runs", "20261130T235224.007Z"); first.dir != want {
		t.Errorf("the record is %s, want %s", first.dir, want)
	}
	if _, err := newRecord(data, now, document()); !errors.Is(err, os.ErrExist) {
		t.Errorf("error is %v, want one that says it exists", err)
	}
}

// Without a place for the record nothing is run.
func TestNoRecordNoRun(t *testing.T) {
	c, err := config.Parse("prod.yaml", []byte(clusterFile(1)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c.Data = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(c.Data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := steps.Open(c, nil)
	defer s.Close()
	err = run(t.Context(), Process{Out: &strings.Builder{}}, c, s, climbOf(stopPlan()), nobodyAsked)
	if err == nil || !strings.HasPrefix(err.Error(), "make the record of the run: ") {
		t.Errorf("error is %v", err)
	}
}

func TestOnlyStopped(t *testing.T) {
	lane := func(err error) error { return fmt.Errorf("w-1: drain: %w", err) }
	broken := errors.New("broken")
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"stopped", engine.ErrStopped, true},
		{"stopped in several lanes", errors.Join(engine.ErrStopped, engine.ErrStopped), true},
		{"failed", lane(broken), false},
		{"failed and stopped", errors.Join(lane(broken), engine.ErrStopped), false},
		{"stopped and failed", errors.Join(engine.ErrStopped, lane(broken)), false},
	}
	for _, tt := range tests {
		if got := onlyStopped(tt.err); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A failure beside a stop is a failure.
func TestOutcomeCodes(t *testing.T) {
	c, err := config.Parse("my prod.yaml", []byte(clusterFile(1)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := steps.Open(c, nil)
	defer s.Close()
	for want, err := range map[int]error{
		codeStopped: engine.ErrStopped,
		codeFailed:  errors.Join(errors.New("w-1: drain: refused"), engine.ErrStopped),
	} {
		var exit *exitError
		got := outcome(t.Context(), Process{}, c, s, err)
		if !errors.As(got, &exit) || exit.code != want {
			t.Errorf("%v gives %v, want exit code %d", err, got, want)
		}
		if next := "go on from here: kuberung upgrade -f 'my prod.yaml' --to v1.36.3"; !strings.HasSuffix(got.Error(), next) {
			t.Errorf("%v does not end with what can be pasted into a shell: %s", got, next)
		}
	}
}
