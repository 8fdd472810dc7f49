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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// slow is how long the controllers of these tests take to create a replacement: longer than a pass, so that for one
// pass the workload seems to have nothing but the pod that is held back.
const slow = 1500 * time.Millisecond

// timeline is when each eviction was asked for, as "21s shop/a", in order.
type timeline []string

// replacing makes the world replace evicted pods on worker-2, ready after a while; never if it is zero. A StatefulSet's
// replacement has the name of the old pod and comes when that is gone, any other comes next to it.
func (w *world) replacing(ready time.Duration) *timeline {
	var times timeline
	start := time.Now()
	w.answer = func(_ *world, old *corev1.Pod) error {
		times = append(times, fmt.Sprintf("%v %s", time.Since(start), nameOf(old)))
		fresh := old.DeepCopy()
		fresh.UID += "-new"
		unready(fresh)
		on("worker-2")(fresh)
		phase(corev1.PodPending)(fresh)
		pause := slow
		if metav1.GetControllerOf(old) == nil || metav1.GetControllerOf(old).Kind != "StatefulSet" {
			fresh.Name += "-new"
		} else {
			pause += w.stopping
		}
		time.AfterFunc(pause, func() { w.put(fresh) })
		if ready > 0 {
			time.AfterFunc(pause+ready, func() { w.put(readied(fresh)) })
		}
		return nil
	}
	return &times
}

// put creates the pod in place of any of the same name.
func (w *world) put(p *corev1.Pod) {
	_ = w.Tracker().Delete(podsGVR, p.Namespace, p.Name) // there may be none
	w.must(w.Tracker().Add(p))
}

func readied(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	phase(corev1.PodRunning)(p)
	p.Status.Conditions = pod(nameOf(p)).Status.Conditions
	return p
}

// told returns the lines that contain a text.
func (w *world) told(text string) []string {
	return slices.DeleteFunc(slices.Clone(w.log), func(l string) bool {
		return !strings.Contains(l, text) || strings.Contains(l, "pods left:")
	})
}

var dns = ownedBy("ReplicaSet", "dns-5d9")

func TestNodeHoldsBackTheLastReadyPod(t *testing.T) {
	db, job, agent := ownedBy("StatefulSet", "db"), ownedBy("Job", "sum"), ownedBy("DaemonSet", "agent")
	app := labelled("app", "web")
	elsewhere := func(options ...podOption) *corev1.Pod {
		return pod("shop/z", append([]podOption{dns, on("worker-2")}, options...)...)
	}
	for name, test := range map[string]struct {
		objects  []runtime.Object
		ready    time.Duration // of a replacement, after it was created; 0 means never
		stopping time.Duration
		want     timeline
		held     []string // pods said to be held back
	}{
		"two here": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns)}, ready: 20 * time.Second,
			want: timeline{"0s shop/a", "22s shop/b"}, held: []string{"shop/b"}},
		"two here that stop slowly": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns)}, ready: 20 * time.Second, stopping: 30 * time.Second,
			want: timeline{"0s shop/a", "22s shop/b"}, held: []string{"shop/b"}},
		"three here": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns), pod("shop/c", dns)}, ready: 20 * time.Second,
			want: timeline{"0s shop/a", "0s shop/b", "22s shop/c"}, held: []string{"shop/c"}},
		"two here, one elsewhere": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns), elsewhere()},
			want:    timeline{"0s shop/a", "0s shop/b"}},
		"one elsewhere, of another workload": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns), pod("shop/z", on("worker-2"))}, ready: 20 * time.Second,
			want: timeline{"0s shop/a", "22s shop/b"}, held: []string{"shop/b"}},
		"one elsewhere, of the same name in another namespace": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns), pod("bank/z", dns, on("worker-2"))}, ready: 20 * time.Second,
			want: timeline{"0s shop/a", "22s shop/b"}, held: []string{"shop/b"}},
		"one elsewhere, pending": {
			objects: []runtime.Object{pod("shop/a", dns), elsewhere(unready, phase(corev1.PodPending))},
			want:    timeline{"2m0s shop/a"}, held: []string{"shop/a"}},
		"one elsewhere, being deleted": {
			objects: []runtime.Object{pod("shop/a", dns), elsewhere(terminating(time.Now().AddDate(100, 0, 0)))},
			want:    timeline{"0s shop/a"}},
		"one elsewhere, failed": {
			objects: []runtime.Object{pod("shop/a", dns), elsewhere(unready, phase(corev1.PodFailed))},
			want:    timeline{"0s shop/a"}},
		"single replica": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b")},
			want:    timeline{"0s shop/a", "0s shop/b"}},
		"the replacement is never ready": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns)},
			want:    timeline{"0s shop/a", "2m0s shop/b"}, held: []string{"shop/b"}},
		"one here is not ready": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns, unready)}, ready: 20 * time.Second,
			want: timeline{"0s shop/b", "22s shop/a"}, held: []string{"shop/a"}},
		"none here is ready": {
			objects: []runtime.Object{pod("shop/a", dns, unready), pod("shop/b", dns, unready)},
			want:    timeline{"0s shop/a", "0s shop/b"}},
		"a budget covers them": {
			objects: []runtime.Object{pod("shop/a", dns, app), pod("shop/b", dns, app), budget("web", 1, 2, 2)},
			want:    timeline{"0s shop/a", "0s shop/b"}},
		"a budget covers others": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns), budget("web", 1, 2, 2)}, ready: 20 * time.Second,
			want: timeline{"0s shop/a", "22s shop/b"}, held: []string{"shop/b"}},
		"a budget covers one, which may go in the same pass": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns, app), budget("web", 1, 2, 2)}, ready: 20 * time.Second,
			want: timeline{"0s shop/b", "22s shop/a"}, held: []string{"shop/a"}},
		"two workloads": {
			objects: []runtime.Object{pod("shop/a", dns), pod("shop/b", dns), pod("shop/db-0", db), pod("shop/db-1", db)}, ready: 20 * time.Second,
			want: timeline{"0s shop/a", "0s shop/db-0", "22s shop/b", "22s shop/db-1"}, held: []string{"shop/b", "shop/db-1"}},
		"two of a StatefulSet": {
			objects: []runtime.Object{pod("shop/db-0", db), pod("shop/db-1", db)}, ready: 20 * time.Second, stopping: 30 * time.Second,
			want: timeline{"0s shop/db-0", "52s shop/db-1"}, held: []string{"shop/db-1"}},
		"one of a StatefulSet, the other elsewhere": {
			objects: []runtime.Object{pod("shop/db-0", db), pod("shop/db-1", db, on("worker-2"))},
			want:    timeline{"0s shop/db-0"}},
		"without a controller": {
			objects: []runtime.Object{pod("shop/a", bare), pod("shop/b", bare)},
			want:    timeline{"0s shop/a", "0s shop/b"}},
		"of a Job": {
			objects: []runtime.Object{pod("shop/a", job), pod("shop/b", job)},
			want:    timeline{"0s shop/a", "0s shop/b"}},
		"of a DaemonSet that is gone": {
			objects: []runtime.Object{pod("shop/a", agent), pod("shop/b", agent)},
			want:    timeline{"0s shop/a", "0s shop/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.objects...)
				w.stopping = test.stopping
				times := w.replacing(test.ready)
				o := w.options()
				o.Unmanaged = Consent{"*"}
				if err := w.drain(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, inOrder(*times)); diff != "" {
					t.Errorf("evictions (-want +got):\n%s", diff)
				}
				over := strings.Contains(strings.Join(test.want, ","), "2m0s")
				if told := w.told("all the same"); (len(told) > 0) != over {
					t.Errorf("told %q", told)
				}
				var held []string
				for _, line := range w.told(": held back: the last ready pod of ") {
					held = append(held, strings.SplitN(line, ":", 2)[0])
				}
				if diff := cmp.Diff(test.held, held); diff != "" {
					t.Errorf("held (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// inOrder sorts what happened at the same time, and leaves the times in the order they came.
func inOrder(times timeline) timeline {
	slices.SortStableFunc(times, func(a, b string) int {
		at, first, _ := strings.Cut(a, " ")
		bt, second, _ := strings.Cut(b, " ")
		if at != bt {
			return 0
		}
		return strings.Compare(first, second)
	})
	return times
}

func TestNodeTellsWhyAPodIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("kube-system/dns-a", dns), pod("kube-system/dns-b", dns))
		w.replacing(0)
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		why := "held back: the last ready pod of ReplicaSet kube-system/dns-5d9; waiting for another"
		want := []string{
			"kube-system/dns-b: " + why,
			"kube-system/dns-b: evicting it all the same, after 2m0s; was " + why,
			"kube-system/dns-b: evicted, stopping",
			"kube-system/dns-b is gone",
		}
		if diff := cmp.Diff(want, w.told("dns-b")); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// A pod that is held back is a reason like any other when the drain ends early, and an interrupted read is none.
func TestNodeEndsWhileAPodIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a", dns), pod("shop/b", dns))
		w.replacing(0)
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		reads := 0
		w.PrependReactor("list", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if reads++; reads < 10 {
				return false, nil, nil
			}
			cancel(interrupted)
			return true, nil, ctx.Err()
		})
		err := w.drain(ctx, w.options())
		want := []Blocked{{"shop/b", "held back: the last ready pod of ReplicaSet shop/dns-5d9; waiting for another"}}
		if diff := cmp.Diff(want, reasons(t, err)); diff != "" || !errors.Is(err, interrupted) {
			t.Errorf("error %v, left (-want +got):\n%s", err, diff)
		}
	})
}

// Once a pod may go, its hold is no reason any more, also when its eviction is not even answered.
func TestNodeForgetsAHoldThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a", dns), pod("shop/b", dns))
		w.replacing(20 * time.Second)
		replace := w.answer
		w.answer = func(w *world, p *corev1.Pod) error {
			if p.Name == "b" {
				return context.DeadlineExceeded
			}
			return replace(w, p)
		}
		want := []Blocked{{"shop/b", context.DeadlineExceeded.Error()}}
		if diff := cmp.Diff(want, reasons(t, w.drain(t.Context(), w.options()))); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	})
}

// A pod that stops being ready while it is held back serves nobody: it goes at once.
func TestNodeEvictsAHeldPodThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a", dns), pod("shop/b", dns))
		times := w.replacing(0)
		time.AfterFunc(30*time.Second+slow, func() { w.put(pod("shop/b", dns, unready)) })
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(timeline{"0s shop/a", "32s shop/b"}, *times); diff != "" {
			t.Errorf("evictions (-want +got):\n%s", diff)
		}
	})
}

// An eviction that something else refuses leaves its pod ready, so the other may go meanwhile; never both.
func TestNodeHoldsBackTheOtherOfARefusedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("shop/a", dns), pod("shop/b", dns))
		times := w.replacing(20 * time.Second)
		replace := w.answer
		w.answer = func(w *world, p *corev1.Pod) error {
			if p.Name == "a" && len(*times) == 0 {
				return apierrors.NewServiceUnavailable("guard.example.com is starting")
			}
			return replace(w, p)
		}
		if err := w.drain(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(timeline{"1s shop/b", "23s shop/a"}, *times); diff != "" {
			t.Errorf("evictions (-want +got):\n%s", diff)
		}
	})
}
