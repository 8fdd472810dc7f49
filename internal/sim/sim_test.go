//go:debug tlsmlkem=0

package sim

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

var artifacts string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kuberung-sim-")
	if err == nil {
		err = WriteArtifacts(dir, "v1.35.4", "v1.36.3")
	}
	if err == nil {
		err = Prepare(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	artifacts = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func TestARungOfASmallAndALargerClusterArrives(t *testing.T) {
	for _, shape := range []Shape{
		{ControlPlanes: 1, Workers: 1, Version: "v1.35.4", Target: "v1.36.3"},
		{ControlPlanes: 3, Workers: 2, Version: "v1.35.4", Target: "v1.36.3"},
	} {
		t.Run(fmt.Sprintf("%d+%d", shape.ControlPlanes, shape.Workers), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w, err := New(t.Context(), dir, shape)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				c := w.Cluster(artifacts)
				r := w.Upgrade(t.Context(), c, w.NewOperator(), nil)
				if r.Err != nil {
					t.Errorf("the run ends with %v", r.Err)
				}
				again := w.Upgrade(t.Context(), c, w.NewOperator(), nil)
				if again.Err != nil || !again.Empty {
					t.Errorf("a second run is not empty, and ends with %v", again.Err)
				}
				if d := Differences(w.State(), w.WantState()); len(d) > 0 {
					t.Errorf("the cluster is not where it should be:\n%s", strings.Join(d, "\n"))
				}
				if broken := w.Broken(); len(broken) > 0 {
					t.Errorf("broken: %q", broken)
				}
				if t.Failed() {
					for _, line := range w.Log() {
						t.Log(line)
					}
					for _, e := range r.Events {
						t.Log(e)
					}
				}
			})
		})
	}
}

// Each of a host's programs is installed by a script of its own, and any of them may be the last that runs.
func TestAnInstallationCutAnywhereIsFinishedByTheNextRun(t *testing.T) {
	for n := 1; n <= len(programs); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w, err := New(t.Context(), dir, Shape{ControlPlanes: 1, Version: "v1.36.1", Target: "v1.36.3"})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				w.faults.installs = n
				c := w.Cluster(artifacts)
				if r := w.Upgrade(t.Context(), c, w.NewOperator(), nil); r.Err == nil {
					t.Error("the first run ends well, although an installation failed")
				}
				if r := w.Upgrade(t.Context(), c, w.NewOperator(), nil); r.Err != nil {
					t.Errorf("the second run ends with %v", r.Err)
				}
				if d := append(Differences(w.State(), w.WantState()), w.Broken()...); len(d) > 0 {
					t.Errorf("the cluster is not where it should be:\n%s", strings.Join(d, "\n"))
				}
			})
		})
	}
}

// Two minors are two rungs, each with its own snapshot; kubelets go along with each.
func TestAClimbOfTwoRungsArrives(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, err := New(t.Context(), dir, Shape{ControlPlanes: 1, Workers: 1, Version: "v1.34.4", Target: "v1.36.3"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r := w.Upgrade(t.Context(), w.Cluster(artifacts), w.NewOperator(), nil)
		if r.Err != nil || r.Rungs != 2 {
			t.Errorf("the run has %d rungs and ends with %v, want 2 and nil", r.Rungs, r.Err)
		}
		for _, d := range append(Differences(w.State(), w.WantState()), w.Broken()...) {
			t.Error(d)
		}
	})
}
