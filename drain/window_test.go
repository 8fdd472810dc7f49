package drain

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// state is what a window changes on a node.
type state struct {
	Cordoned bool
	Window   string
}

func stateOf(t *testing.T, w *world) state {
	t.Helper()
	n, err := w.CoreV1().Nodes().Get(t.Context(), "worker-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return state{n.Spec.Unschedulable, n.Annotations[WindowAnnotation]}
}

func TestWindow(t *testing.T) {
	for name, test := range map[string]struct {
		found    state
		opened   state
		closed   state
		released bool
	}{
		"schedulable":                      {state{}, state{true, Cordoned}, state{}, true},
		"cordoned by somebody else":        {state{true, ""}, state{true, FoundCordoned}, state{true, ""}, false},
		"open already":                     {state{true, Cordoned}, state{true, Cordoned}, state{}, true},
		"open on a cordoned node":          {state{true, FoundCordoned}, state{true, FoundCordoned}, state{true, ""}, false},
		"died before the cordon":           {state{false, Cordoned}, state{true, Cordoned}, state{}, true},
		"found cordoned, since uncordoned": {state{false, FoundCordoned}, state{true, Cordoned}, state{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node("worker-1", test.found.Cordoned, test.found.Window))
			if err := Cordon(t.Context(), w, "worker-1"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.opened, stateOf(t, w)); diff != "" {
				t.Errorf("after Cordon (-want +got):\n%s", diff)
			}
			released, err := Uncordon(t.Context(), w, "worker-1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.closed, stateOf(t, w)); diff != "" {
				t.Errorf("after Uncordon (-want +got):\n%s", diff)
			}
			if released != test.released {
				t.Errorf("released: got %v, want %v", released, test.released)
			}
		})
	}
}

func TestCordonWritesTheWindowFirst(t *testing.T) {
	w := newWorld(t, node("worker-1", false, ""))
	if err := Cordon(t.Context(), w, "worker-1"); err != nil {
		t.Fatal(err)
	}
	changes := w.changes()
	if len(changes) != 2 || !strings.Contains(changes[0], `"kuberung.io/window":"cordoned"`) || !strings.Contains(changes[1], `"unschedulable":true`) {
		t.Errorf("got changes %q, want the annotation and then the cordon", changes)
	}
	if !strings.Contains(changes[0], `"resourceVersion"`) {
		t.Errorf("the annotation patch %s does not hold for what was read only", changes[0])
	}
}

func TestUncordonWithoutWindowChangesNothing(t *testing.T) {
	for _, cordoned := range []bool{false, true} {
		w := newWorld(t, node("worker-1", cordoned, ""))
		released, err := Uncordon(t.Context(), w, "worker-1")
		if err != nil || released || len(w.changes()) > 0 {
			t.Errorf("cordoned %v: got released %v, error %v, changes %q", cordoned, released, err, w.changes())
		}
	}
}

// A run that dies between two patches leaves a state from which the next call gets to the same end.
func TestWindowSurvivesEachInterruption(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "worker-1", errors.New("not now"))
	for patch := 1; patch <= 4; patch++ {
		w := newWorld(t, node("worker-1", false, ""))
		seen := 0
		w.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			seen++
			return seen == patch, nil, refused
		})
		for range 2 {
			_ = Cordon(t.Context(), w, "worker-1")
		}
		if got, want := stateOf(t, w), (state{true, Cordoned}); got != want {
			t.Errorf("patch %d failed: after Cordon got %v, want %v", patch, got, want)
		}
		for range 2 {
			_, _ = Uncordon(t.Context(), w, "worker-1")
		}
		if got, want := stateOf(t, w), (state{}); got != want {
			t.Errorf("patch %d failed: after Uncordon got %v, want %v", patch, got, want)
		}
	}
}

// Somebody cordons the node between our read and our write: the write must fail, and the second look sees it.
func TestCordonLosesRaceAgainstOperator(t *testing.T) {
	w := newWorld(t, node("worker-1", false, ""))
	raced := false
	w.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if raced {
			return false, nil, nil
		}
		raced = true
		w.must(w.Tracker().Update(nodesGVR, node("worker-1", true, ""), ""))
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "worker-1", errors.New("modified"))
	})
	if err := Cordon(t.Context(), w, "worker-1"); err != nil {
		t.Fatal(err)
	}
	if got, want := stateOf(t, w), (state{true, FoundCordoned}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUnknownWindowIsLeftAlone(t *testing.T) {
	w := newWorld(t, node("worker-1", true, "something-newer"))
	errCordon := Cordon(t.Context(), w, "worker-1")
	_, errUncordon := Uncordon(t.Context(), w, "worker-1")
	for _, err := range []error{errCordon, errUncordon} {
		if err == nil || !strings.Contains(err.Error(), "something-newer") {
			t.Errorf("got error %v, want one that names the value", err)
		}
	}
	if changes := w.changes(); len(changes) > 0 {
		t.Errorf("changed %q", changes)
	}
}

func TestWindowErrors(t *testing.T) {
	w := newWorld(t)
	if err := Cordon(t.Context(), w, "worker-1"); !apierrors.IsNotFound(err) || !strings.HasPrefix(err.Error(), "cordon node worker-1: ") {
		t.Errorf("missing node: got %v", err)
	}
	synctest.Test(t, func(t *testing.T) { // an API server that restarts is waited for, a broken one is not for ever
		w := newWorld(t, node("worker-1", false, ""))
		down := errors.New("dial tcp: connection refused")
		w.fail("get", "nodes", attempts-1, down)
		if err := Cordon(t.Context(), w, "worker-1"); err != nil {
			t.Errorf("short outage: %v", err)
		}
		w.fail("get", "nodes", 100, down)
		if _, err := Uncordon(t.Context(), w, "worker-1"); !errors.Is(err, down) {
			t.Errorf("long outage: got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Cordon(ctx, w, "worker-1"); !errors.Is(err, down) {
			t.Errorf("cancelled: got %v", err)
		}
	})
}
