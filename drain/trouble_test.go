package drain

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// No error on the way ends the drain before its time, or lets it end with pods left.
func TestNodeWaitsOutTrouble(t *testing.T) {
	refusedDial := errors.New("dial tcp 10.0.0.1:6443: connect: connection refused")
	resource := schema.GroupResource{Resource: "pods"}
	terminating := apierrors.NewForbidden(resource, "a", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		verb string
		err  error
		n    int
	}{
		"no connection to list":          {"list", refusedDial, 40},
		"no connection to evict":         {"create", refusedDial, 20},
		"API server starting, to list":   {"list", apierrors.NewForbidden(resource, "", errors.New("RBAC not ready")), 4},
		"API server starting, to evict":  {"create", apierrors.NewForbidden(resource, "a", errors.New("RBAC not ready")), 4},
		"etcd has no leader":             {"create", apierrors.NewInternalError(errors.New("etcdserver: no leader")), 20},
		"overloaded":                     {"create", apierrors.NewServiceUnavailable("shutting down"), 20},
		"server timeout":                 {"create", apierrors.NewTimeoutError("couldn't update PodDisruptionBudget", 10), 20},
		"the namespace is being deleted": {"create", terminating, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pod("shop/a"), pod("shop/b"))
				w.fail(test.verb, "pods", test.n, test.err)
				took, err := drained(t.Context(), w, w.options())
				if err != nil || len(w.left()) > 0 {
					t.Errorf("after %v: error %v, left %q", took, err, w.left())
				}
			})
		})
	}
}

func TestNodeEndsWithTheLastReason(t *testing.T) {
	stuck := pod("shop/stuck", terminating(time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC), "example.com/volume"))
	stuck.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		answer error
		want   []string
	}{
		"a budget":               {pod("shop/a"), overBudget("The disruption budget web needs 1 healthy pods and has 1 currently", 0), []string{"shop/a", "budget web needs 1"}},
		"the network":            {pod("shop/a"), errors.New("EOF"), []string{"shop/a", "EOF"}},
		"a pod that never stops": {stuck, nil, []string{"shop/stuck", "stuck: should have stopped by 1999-12-31T00:00:00Z", "example.com/volume", "ContainerCreating"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.pod, pod("shop/fine"))
				w.answer = func(_ *world, p *corev1.Pod) error {
					if p.Name == "fine" {
						return nil
					}
					return test.answer
				}
				took, err := drained(t.Context(), w, Options{})
				if took != DefaultTimeout || !errors.Is(err, ErrTimeout) {
					t.Errorf("took %v, error %v", took, err)
				}
				if left := reasons(t, err); len(left) != 1 {
					t.Errorf("left: %v", left)
				}
				for _, part := range append(test.want, "worker-1", "10m0s") {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("message %q does not name %q", err, part)
					}
				}
				if most := int(DefaultTimeout/DefaultRetryDelay) + 2; len(w.evictions) > most {
					t.Errorf("%d evictions in %v, want at most %d", len(w.evictions), took, most)
				}
			})
		})
	}
}

func TestNodeKeepsReasonOfUnreadableList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"))
		w.answer = func(w *world, _ *corev1.Pod) error {
			return overBudget("The disruption budget web needs 1 healthy pods and has 1 currently", 0)
		}
		lists := 0
		w.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			return lists > 3, nil, errors.New("connection reset")
		})
		took, err := drained(t.Context(), w, w.options())
		if !errors.Is(err, ErrTimeout) || took != DefaultTimeout || !strings.Contains(err.Error(), "cannot list the node's pods: connection reset") {
			t.Errorf("after %v: %v", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"))
		down := errors.New("connection refused")
		w.fail("list", "pods", -1, down)
		took, err := drained(t.Context(), w, w.options())
		if !errors.Is(err, ErrTimeout) || !errors.Is(err, down) || took != DefaultTimeout {
			t.Errorf("never listed, after %v: %v", took, err)
		}
	})
}
