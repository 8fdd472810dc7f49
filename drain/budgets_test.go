package drain

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// budget wants desired of expected pods healthy, and has healthy.
func budget(name string, desired, healthy, expected int32, options ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 2},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DesiredHealthy: desired, CurrentHealthy: healthy,
			ExpectedPods: expected, DisruptionsAllowed: max(0, healthy-desired)},
	}
	for _, o := range options {
		o(b)
	}
	return b
}

func alwaysAllow(b *policyv1.PodDisruptionBudget) {
	policy := policyv1.AlwaysAllow
	b.Spec.UnhealthyPodEvictionPolicy = &policy
}

func TestBudgets(t *testing.T) {
	web := labelled("app", "web")
	ok := pod("shop/p", web)
	selects := func(s *metav1.LabelSelector) func(*policyv1.PodDisruptionBudget) {
		return func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = s }
	}
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		budgets []runtime.Object
		want    string // part of the reason
		never   bool
	}{
		"none":                             {ok, nil, "", false},
		"one to spare":                     {ok, []runtime.Object{budget("a", 2, 3, 3)}, "", false},
		"all needed just now":              {ok, []runtime.Object{budget("a", 2, 2, 3)}, "disruption budget a needs 2 healthy pods and has 2", false},
		"as many wanted as there are":      {ok, []runtime.Object{budget("a", 1, 1, 1)}, "never allows a disruption: it wants 1 of 1", true},
		"two budgets":                      {ok, []runtime.Object{budget("b", 1, 3, 3), budget("a", 1, 3, 3)}, "refuses: a, b", true},
		"two budgets, pending":             {pod("shop/p", web, phase(corev1.PodPending)), []runtime.Object{budget("b", 1, 3, 3), budget("a", 1, 3, 3)}, "", false},
		"finished":                         {pod("shop/p", web, phase(corev1.PodFailed)), []runtime.Object{budget("a", 1, 1, 1)}, "", false},
		"being deleted":                    {pod("shop/p", web, terminating(time.Now(), "x")), []runtime.Object{budget("a", 1, 1, 1)}, "", false},
		"unhealthy, too few others":        {pod("shop/p", web, unready), []runtime.Object{budget("a", 2, 1, 3)}, "unhealthy and guarded by disruption budget a, which has 1 of 2", false},
		"unhealthy, enough others":         {pod("shop/p", web, unready), []runtime.Object{budget("a", 2, 2, 3)}, "", false},
		"unhealthy, always allowed":        {pod("shop/p", web, unready), []runtime.Object{budget("a", 3, 0, 3, alwaysAllow)}, "", false},
		"healthy, only unhealthy allowed":  {ok, []runtime.Object{budget("a", 3, 3, 3, alwaysAllow)}, "never allows", true},
		"changed since":                    {ok, []runtime.Object{budget("a", 1, 3, 3, func(b *policyv1.PodDisruptionBudget) { b.Generation = 3 })}, "has not been processed", false},
		"other labels":                     {pod("shop/p"), []runtime.Object{budget("a", 1, 1, 1)}, "", false},
		"other namespace":                  {pod("bank/p", web), []runtime.Object{budget("a", 1, 1, 1)}, "", false},
		"empty selector selects all":       {pod("shop/p"), []runtime.Object{budget("a", 1, 1, 1, selects(&metav1.LabelSelector{}))}, "never allows", true},
		"without a selector, selects none": {ok, []runtime.Object{budget("a", 1, 1, 1, selects(nil))}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.budgets...)
			got, err := Budgets(t.Context(), w, []corev1.Pod{*test.pod})
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if len(got) > 0 {
					t.Errorf("got %+v, want nothing", got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0].Reason, test.want) || got[0].Never != test.never || got[0].Pod != nameOf(test.pod) {
				t.Errorf("got %+v, want reason with %q, never %v", got, test.want, test.never)
			}
		})
	}
}

func TestBudgetsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		down := errors.New("EOF")
		w.fail("list", "poddisruptionbudgets", -1, down)
		if got, err := Budgets(t.Context(), w, nil); !errors.Is(err, down) || got != nil {
			t.Errorf("got %v, error %v", got, err)
		}
	})
	broken := budget("a", 1, 1, 1)
	broken.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Sometimes"}}
	if _, err := Budgets(t.Context(), newWorld(t, broken), []corev1.Pod{*pod("shop/p")}); err == nil || !strings.Contains(err.Error(), "shop/a") {
		t.Errorf("broken selector: got error %v", err)
	}
}
