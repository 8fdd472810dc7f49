package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// drained runs a drain in virtual time and returns how long it took.
func drained(ctx context.Context, w *world, o Options) (time.Duration, error) {
	start := time.Now()
	err := w.drain(ctx, o)
	return time.Since(start), err
}

// reasons returns the pods left by a BlockedError.
func reasons(t *testing.T, err error) []Blocked {
	t.Helper()
	var blocked *BlockedError
	if !errors.As(err, &blocked) {
		t.Fatalf("got error %v, want a BlockedError", err)
	}
	return blocked.Pods
}

func TestNodeEvictsWhatMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("worker-1", false, ""), daemonSet("kube/agent"), pod("shop/a"), pod("shop/b"), pod("bank/c"),
			pod("shop/elsewhere", on("worker-2")), pod("kube/agent-x", ownedBy("DaemonSet", "agent")), pod("kube/static", mirror))
		if err := Cordon(t.Context(), w, "worker-1"); err != nil {
			t.Fatal(err)
		}
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		want := []string{"kube/agent-x", "kube/static", "shop/elsewhere"}
		if diff := cmp.Diff(want, w.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		changes := w.changes()
		if len(changes) != 5 || !strings.Contains(changes[0], WindowAnnotation) || !strings.Contains(changes[1], "unschedulable") {
			t.Errorf("got %q, want annotation, cordon, three evictions", changes)
		}
		for _, c := range changes[2:] {
			if c != "create pods/eviction" {
				t.Errorf("got %q after the cordon, want evictions only", c)
			}
		}
	})
}

func TestNodeWaitsUntilPodsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"))
		w.stopping = 25 * time.Second
		took, err := drained(t.Context(), w, w.options())
		if err != nil || took < w.stopping || len(w.evictions) != 1 {
			t.Errorf("took %v, error %v, %d evictions; want one eviction and its whole grace period", took, err, len(w.evictions))
		}
	})
}

func TestNodeRefusesBeforeAnyEviction(t *testing.T) {
	w := newWorld(t, pod("shop/a"), pod("shop/data", emptyDir("cache")), pod("shop/debug", bare))
	err := w.drain(t.Context(), w.options())
	var refused *RefusedError
	if !errors.As(err, &refused) || len(refused.Refused) != 2 {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"worker-1", "shop/data", "cache", "consent LocalData", "shop/debug", "consent Unmanaged"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("message %q does not name %q", err, part)
		}
	}
	if len(w.changes()) > 0 {
		t.Errorf("changed %q", w.changes())
	}
}

func TestNodeRetriesWhileBudgetRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		retryAfter int
		want       time.Duration
	}{
		"at its own pace":              {0, 3 * DefaultRetryDelay},
		"as the API server asks":       {20, 60 * time.Second},
		"but never slower than 1/min":  {3600, 3 * time.Minute},
		"nor faster than its own pace": {1, 3 * DefaultRetryDelay},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pod("shop/a"))
				refusals := 3
				w.answer = func(*world, *corev1.Pod) error {
					if refusals--; refusals >= 0 {
						return overBudget("The disruption budget web needs 2 healthy pods and has 2 currently", test.retryAfter)
					}
					return nil
				}
				took, err := drained(t.Context(), w, w.options())
				if err != nil {
					t.Fatal(err)
				}
				if len(w.evictions) != 4 || took < test.want || took > test.want+5*time.Second {
					t.Errorf("%d evictions in %v, want 4 in about %v", len(w.evictions), took, test.want)
				}
				told := slices.DeleteFunc(slices.Clone(w.log), func(l string) bool { return !strings.Contains(l, "budget web needs 2") })
				if told = slices.DeleteFunc(told, func(l string) bool { return strings.Contains(l, "pods left:") }); len(told) != 1 {
					t.Errorf("the same reason was told %d times: %q", len(told), w.log)
				}
			})
		})
	}
}

// The trap this package exists for: while a budget refuses, the pod is deleted by something else and its StatefulSet
// starts one of the same name on another node. That one must live.
func TestNodeSparesPodRecreatedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/db-0", ownedBy("StatefulSet", "db")))
		w.answer = func(w *world, p *corev1.Pod) error {
			w.recreate(p, "worker-2")
			return overBudget("The disruption budget db needs 1 healthy pods and has 1 currently", 0)
		}
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"shop/db-0=uid-db-0"}, w.evicted()); diff != "" {
			t.Errorf("evictions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"shop/db-0"}, w.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

// Even when it is recreated between our list and our eviction, the precondition fails and nothing happens to it.
func TestNodeSparesPodRecreatedBetweenListAndEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		original := pod("shop/db-0", ownedBy("StatefulSet", "db"))
		w := newWorld(t, original)
		once := true
		w.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if once {
				w.recreate(original, "worker-2")
			}
			once = false
			return false, nil, nil
		})
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"shop/db-0"}, w.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

func TestNodeSparesOtherNodesOfAnUnselectiveList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/here"), pod("shop/there", on("worker-2")))
		w.unselective = true
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"shop/there"}, w.left()); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"shop/here: evicted, stopping", "shop/here is gone"}, w.log); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestNodeEvictsLateArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/pinned-0", ownedBy("StatefulSet", "pinned")))
		w.answer = func(w *world, p *corev1.Pod) error {
			if strings.HasSuffix(string(p.UID), "-again") {
				return nil
			}
			w.recreate(p, "worker-1")
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, p.Name)
		}
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		want := []string{"shop/pinned-0=uid-pinned-0", "shop/pinned-0=uid-pinned-0-again"}
		if diff := cmp.Diff(want, w.evicted()); diff != "" {
			t.Errorf("evictions (-want +got):\n%s", diff)
		}
	})
}

func TestNodeGivesUpOnPodsThatKeepComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/pinned-0"))
		w.answer = func(w *world, p *corev1.Pod) error {
			w.recreate(p, "worker-1")
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, p.Name)
		}
		took, err := drained(t.Context(), w, w.options())
		if left := reasons(t, err); !errors.Is(err, ErrReturns) || len(left) != 1 || left[0].Pod != "shop/pinned-0" {
			t.Errorf("got %v", err)
		}
		if len(w.evictions) != rounds || took > time.Minute {
			t.Errorf("%d evictions in %v, want %d soon", len(w.evictions), took, rounds)
		}
	})
}

// Budgets that no time will satisfy end the drain at once, and before anything was disturbed if they can be read.
func TestNodeStopsAtHopelessBudgets(t *testing.T) {
	budget := func(name string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "two"}}}}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"), pod("shop/two", labelled("app", "two")), budget("red"), budget("blue"))
		took, err := drained(t.Context(), w, w.options())
		if left := reasons(t, err); !errors.Is(err, ErrForGood) || len(left) != 1 || !strings.Contains(left[0].Reason, "blue, red") {
			t.Errorf("got %v", err)
		}
		if took > 0 || len(w.evictions) > 0 {
			t.Errorf("%d evictions in %v, want none", len(w.evictions), took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"), pod("shop/two"))
		w.fail("list", "poddisruptionbudgets", 1, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")))
		w.answer = func(_ *world, p *corev1.Pod) error {
			if p.Name == "a" {
				return overBudget("wait", 0)
			}
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500,
				Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
		}
		took, err := drained(t.Context(), w, w.options())
		if left := reasons(t, err); !errors.Is(err, ErrForGood) || took > 0 || len(left) != 2 || !strings.Contains(left[1].Reason, "more than one disruption budget") {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestNodeStopsAtLastingRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"))
		denied := `admission webhook "guard.example.com" denied the request`
		w.answer = func(*world, *corev1.Pod) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New(denied))
		}
		took, err := drained(t.Context(), w, w.options())
		if !errors.Is(err, ErrForGood) || !strings.Contains(err.Error(), denied) || took < patience || took > 2*patience {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestNodeReturnsWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"))
		w.answer = func(*world, *corev1.Pod) error { return overBudget("The disruption budget web needs 1", 0) }
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		time.AfterFunc(7*time.Second+time.Millisecond, func() { cancel(interrupted) })
		took, err := drained(ctx, w, w.options())
		if took != 7*time.Second+time.Millisecond || !errors.Is(err, interrupted) || errors.Is(err, ErrTimeout) {
			t.Errorf("after %v: %v", took, err)
		}
		if left := reasons(t, err); len(left) != 1 || !strings.Contains(left[0].Reason, "budget web") {
			t.Errorf("left: %v", left)
		}
	})
}

func TestNodeSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a"))
		w.answer = func(*world, *corev1.Pod) error { return overBudget("The disruption budget web needs 1", 0) }
		o := w.options()
		o.Timeout = 5*time.Minute + time.Second
		if err := w.drain(t.Context(), o); err == nil {
			t.Fatal("drained")
		}
		reminders := slices.DeleteFunc(w.log, func(l string) bool { return !strings.Contains(l, "pods left: 1") })
		if len(reminders) != 5 || !strings.Contains(reminders[0], "shop/a: The disruption budget web") {
			t.Errorf("got %d reminders in 5 minutes: %q", len(reminders), reminders)
		}
	})
}

func TestNodeEvictsManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for i := range 110 {
			objects = append(objects, pod(fmt.Sprintf("shop/p-%d", i)))
		}
		w := newWorld(t, objects...)
		if err := w.drain(t.Context(), w.options()); err != nil || len(w.left()) > 0 || len(w.evictions) != 110 {
			t.Errorf("error %v, left %q, %d evictions", err, w.left(), len(w.evictions))
		}
	})
}
