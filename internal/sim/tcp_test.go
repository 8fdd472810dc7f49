package sim

import (
	"testing"

	"github.com/kuberung/kuberung/steps"
)

// The demo's way: real TCP, and SSH as anybody on this machine would use it.
func TestAClusterBehindRealTCPPassesTheChecks(t *testing.T) {
	w, err := New(t.Context(), t.TempDir(), Shape{ControlPlanes: 1, Workers: 1, Version: "v1.35.4", Target: "v1.36.3", Pace: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.ListenTCP(); err != nil {
		t.Fatal(err)
	}
	c := w.Cluster(artifacts)
	s := steps.Open(c, nil)
	defer s.Close()
	facts := s.Observe(t.Context())
	if found := steps.Check(c, facts); steps.Blocked(found) {
		t.Errorf("the checks find %v", found)
	}
	if climb := steps.Climb(c, facts, s); len(climb) != 1 {
		t.Errorf("the climb has %d rungs, want 1", len(climb))
	}
	if broken := w.Broken(); len(broken) > 0 {
		t.Errorf("broken: %q", broken)
	}
}
