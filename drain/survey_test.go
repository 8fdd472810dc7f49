package drain

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// outcome is a survey by names.
type outcome struct {
	Evict              []string
	Refused, Consented []Refusal
}

func outcomeOf(s Survey) outcome {
	o := outcome{Refused: s.Refused, Consented: s.Consented}
	for _, p := range s.Evict {
		o.Evict = append(o.Evict, nameOf(&p))
	}
	return o
}

func TestLookDecides(t *testing.T) {
	none := Options{}
	lost := func(volumes, name string) []Refusal {
		return []Refusal{{"shop/p", "data in emptyDir would be lost: " + volumes, "LocalData", name}}
	}
	alone := []Refusal{{"shop/p", "no controller would create it again", "Unmanaged", "shop/p"}}
	orphan := []Refusal{{"shop/p", "its DaemonSet gone no longer exists", "Unmanaged", "shop/gone"}}
	both := append(lost("d", "shop/p"), alone...)
	evict := []string{"shop/p"}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		o    Options
		want outcome
	}{
		"managed, nothing to consent to":   {pod("shop/p"), Options{LocalData: Consent{"*"}, Unmanaged: Consent{"*"}}, outcome{Evict: evict}},
		"managed":                          {pod("shop/p"), none, outcome{Evict: evict}},
		"of a DaemonSet":                   {pod("shop/p", ownedBy("DaemonSet", "agent")), none, outcome{}},
		"of a DaemonSet, with emptyDir":    {pod("shop/p", ownedBy("DaemonSet", "agent"), emptyDir("tmp")), none, outcome{}},
		"mirror":                           {pod("shop/p", mirror, emptyDir("tmp")), none, outcome{}},
		"on another node":                  {pod("shop/p", on("worker-2"), bare), none, outcome{}},
		"emptyDir":                         {pod("shop/p", emptyDir("data", "tmp")), none, outcome{Refused: lost("data, tmp", "shop/p-5d9")}},
		"emptyDir, consented":              {pod("shop/p", emptyDir("data")), Options{LocalData: Consent{"shop/p"}}, outcome{Evict: evict, Consented: lost("data", "shop/p-5d9")}},
		"emptyDir, wrong consent":          {pod("shop/p", emptyDir("data")), Options{Unmanaged: Consent{"*"}, LocalData: Consent{"shop/q"}}, outcome{Refused: lost("data", "shop/p-5d9")}},
		"bare":                             {pod("shop/p", bare), none, outcome{Refused: alone}},
		"bare, consented":                  {pod("shop/p", bare), Options{Unmanaged: Consent{"*"}}, outcome{Evict: evict, Consented: alone}},
		"bare with emptyDir":               {pod("shop/p", bare, emptyDir("d")), none, outcome{Refused: both}},
		"bare with emptyDir, one consent":  {pod("shop/p", bare, emptyDir("d")), Options{LocalData: Consent{"*"}}, outcome{Refused: alone}},
		"bare with emptyDir, two consents": {pod("shop/p", bare, emptyDir("d")), Options{LocalData: Consent{"*"}, Unmanaged: Consent{"shop/p"}}, outcome{Evict: evict, Consented: both}},
		"of a DaemonSet that is gone":      {pod("shop/p", ownedBy("DaemonSet", "gone")), none, outcome{Refused: orphan}},
		"finished, bare, emptyDir":         {pod("shop/p", bare, emptyDir("d"), phase(corev1.PodSucceeded)), Options{LocalData: Consent{"*"}}, outcome{Evict: evict}},
		"failed, bare":                     {pod("shop/p", bare, phase(corev1.PodFailed)), none, outcome{Evict: evict}},
		"bare, being deleted":              {pod("shop/p", bare, terminating(time.Now(), "x")), none, outcome{Evict: evict}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.pod, daemonSet("shop/agent"))
			survey, err := Look(t.Context(), w, "worker-1", test.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, outcomeOf(survey)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if changes := w.changes(); len(changes) > 0 {
				t.Errorf("Look changed %q", changes)
			}
		})
	}
}

func TestLookSorts(t *testing.T) {
	w := newWorld(t, pod("b/z"), pod("a/y"), pod("b/a"), pod("c/bare", bare), pod("a/bare", bare))
	survey, err := Look(t.Context(), w, "worker-1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := outcomeOf(survey)
	if diff := cmp.Diff([]string{"a/y", "b/a", "b/z"}, got.Evict); diff != "" {
		t.Error(diff)
	}
	if len(got.Refused) != 2 || got.Refused[0].Pod != "a/bare" {
		t.Errorf("refused: %v", got.Refused)
	}
}

// One DaemonSet that cannot be read is fatal to kubectl's whole list; a lasting error must not pass for an empty node.
func TestLookRepeatsReads(t *testing.T) {
	down := errors.New("etcdserver: leader changed")
	for name, test := range map[string]struct {
		failures int
		want     error
	}{"passes": {attempts - 1, nil}, "lasts": {attempts, down}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pod("shop/agent", ownedBy("DaemonSet", "agent")), pod("shop/bare", bare), daemonSet("shop/agent"))
				w.fail("get", "daemonsets", test.failures, down)
				survey, err := Look(t.Context(), w, "worker-1", Options{})
				if (err == nil) != (test.want == nil) {
					t.Fatalf("got error %v, want %v", err, test.want)
				}
				if err == nil && len(survey.Refused) != 1 {
					t.Errorf("refused %v: each pod counts once, however often it was read", survey.Refused)
				}
				if err != nil && (len(survey.Evict) > 0 || len(survey.Refused) > 0) {
					t.Errorf("got %v with an error", survey)
				}
			})
		})
	}
}

// kubectl's zero values kill, spin and wait for ever.
func TestHelperHasNoZeroValueTraps(t *testing.T) {
	h := newHelper(t.Context(), fake.NewClientset(), Options{}.withDefaults())
	if h.GracePeriodSeconds >= 0 {
		t.Errorf("grace period %d overrides the pod's own", h.GracePeriodSeconds)
	}
	if h.EvictErrorRetryDelay <= 0 || h.Timeout <= 0 {
		t.Errorf("retry delay %v, timeout %v", h.EvictErrorRetryDelay, h.Timeout)
	}
	if h.Ctx == nil || h.Client == nil || h.Out == nil || h.ErrOut == nil {
		t.Error("a nil context, client or writer")
	}
	if h.DisableEviction || h.SkipWaitForDeleteTimeoutSeconds != 0 || !h.IgnoreAllDaemonSets {
		t.Errorf("got %+v", h)
	}
	negative := Options{Timeout: -1, RetryDelay: -1}.withDefaults()
	if negative.Timeout != DefaultTimeout || negative.RetryDelay != DefaultRetryDelay || negative.Logf == nil {
		t.Errorf("negative values: %+v", negative)
	}
}
