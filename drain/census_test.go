package drain

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// failSiblings makes the lists of a namespace's pods fail, those of a node's pods pass.
func (w *world) failSiblings(times int, err error) {
	w.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == metav1.NamespaceAll || times == 0 {
			return false, nil, nil
		}
		times--
		return true, nil, err
	})
}

// What cannot be read is not known to be harmless: the pod waits, but no longer than for a replacement.
func TestNodeHoldsBackWhatItCannotJudge(t *testing.T) {
	down := errors.New("etcdserver: no leader")
	broken := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "odd"}}
	broken.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Sometimes"}}}
	two := []runtime.Object{pod("shop/a", dns), pod("shop/b", dns)}
	budgets := func(times int) func(*world) {
		return func(w *world) { w.fail("list", "poddisruptionbudgets", times, down) }
	}
	siblings := func(times int) func(*world) { return func(w *world) { w.failSiblings(times, down) } }
	for name, test := range map[string]struct {
		objects []runtime.Object
		trouble func(*world)
		want    timeline
		why     string
	}{
		"budgets, for a while":             {two, budgets(3), timeline{"3s shop/a", "25s shop/b"}, "list disruption budgets: etcdserver: no leader"},
		"budgets, for good":                {two, budgets(-1), timeline{"2m0s shop/a", "2m0s shop/b"}, "list disruption budgets: etcdserver: no leader"},
		"siblings, for a while":            {two, siblings(3), timeline{"3s shop/a", "25s shop/b"}, "list pods of namespace shop: etcdserver: no leader"},
		"siblings, for good":               {two, siblings(-1), timeline{"2m0s shop/a", "2m0s shop/b"}, "list pods of namespace shop: etcdserver: no leader"},
		"siblings of one, for a while":     {two[:1], siblings(3), timeline{"3s shop/a"}, "list pods of namespace shop: etcdserver: no leader"},
		"a budget that cannot be judged":   {append(two, broken), func(*world) {}, timeline{"2m0s shop/a", "2m0s shop/b"}, `disruption budget bank/odd: "Sometimes"`},
		"budgets, but the pod is no use":   {[]runtime.Object{pod("shop/a", dns, unready), pod("shop/b", dns, unready)}, budgets(-1), timeline{"0s shop/a", "0s shop/b"}, ""},
		"siblings, but a budget covers it": {[]runtime.Object{pod("shop/a", dns, labelled("app", "web")), budget("web", 0, 1, 1)}, siblings(-1), timeline{"0s shop/a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.objects...)
				test.trouble(w)
				times := w.replacing(20 * time.Second)
				survey, err := Look(t.Context(), w, "worker-1", Options{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), DefaultTimeout)
				defer cancel()
				if err := newEviction(w, "worker-1", w.options().withDefaults(), survey.Evict).run(ctx); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, inOrder(*times)); diff != "" {
					t.Errorf("evictions (-want +got):\n%s", diff)
				}
				told := w.told("held back: cannot tell whether it is the last ready pod of ReplicaSet shop/dns-5d9: ")
				if (len(told) > 0) != (test.why != "") {
					t.Errorf("told %q", w.log)
				}
				for _, line := range told {
					if !strings.Contains(line, test.why) {
						t.Errorf("told %q, want it to name %q", line, test.why)
					}
				}
			})
		})
	}
}

// The census costs one list of budgets and one of each namespace in a pass, and nothing while no pod depends on it.
func TestNodeReadsSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		single := pod("bank/stopping-for-long", terminating(time.Now().Add(90*time.Second)))
		w := newWorld(t, pod("shop/a", dns), pod("shop/b", dns), pod("shop/c", dns), pod("shop/d", bare), single)
		w.replacing(20 * time.Second)
		o := w.options()
		o.Unmanaged = Consent{"*"}
		if err := w.drain(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		counts := make(map[string]int)
		for _, a := range w.Actions() {
			if a.GetVerb() == "list" {
				counts[a.GetResource().Resource+" "+a.GetNamespace()]++
			}
		}
		// c was due in the passes at 0 to 22 seconds; one more list of the budgets belongs to the drain's beginning.
		if counts["pods shop"] != 23 || counts["poddisruptionbudgets "] != 24 || counts["pods bank"] != 0 {
			t.Errorf("got %v", counts)
		}
	})
}
