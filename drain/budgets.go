package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

// Hindrance is a pod whose eviction a disruption budget refuses as things stand.
type Hindrance struct {
	Pod     string   // namespace/name
	Budgets []string // names of the budgets that select it, sorted
	Reason  string
	Never   bool // waiting will not help: the budget, or the number of replicas, has to change
}

// Budgets tells which of the pods could not be evicted now, sorted as the pods are. It judges by the rules of the
// eviction API and changes nothing. Pods that would be evicted one after the other, as replacements become ready, are
// no hindrance.
func Budgets(ctx context.Context, client kubernetes.Interface, pods []corev1.Pod) ([]Hindrance, error) {
	var all []policyv1.PodDisruptionBudget
	err := persist(ctx, DefaultRetryDelay, func(ctx context.Context) (err error) {
		all, err = listBudgets(ctx, client)
		return err
	})
	if err != nil {
		return nil, err
	}
	var hindrances []Hindrance
	for i := range pods {
		budgets, err := selecting(&pods[i], all)
		if err != nil {
			return nil, err
		}
		if h := hindrance(&pods[i], budgets); h.Reason != "" {
			hindrances = append(hindrances, h)
		}
	}
	return hindrances, nil
}

// listBudgets reads the disruption budgets of all namespaces.
func listBudgets(ctx context.Context, client kubernetes.Interface) ([]policyv1.PodDisruptionBudget, error) {
	list, err := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list disruption budgets: %w", err)
	}
	return list.Items, nil
}

// selecting returns the budgets that select the pod, sorted by name.
func selecting(pod *corev1.Pod, all []policyv1.PodDisruptionBudget) ([]policyv1.PodDisruptionBudget, error) {
	var chosen []policyv1.PodDisruptionBudget
	for _, budget := range all {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("disruption budget %s/%s: %w", budget.Namespace, budget.Name, err)
		}
		if budget.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			chosen = append(chosen, budget)
		}
	}
	slices.SortFunc(chosen, func(a, b policyv1.PodDisruptionBudget) int { return strings.Compare(a.Name, b.Name) })
	return chosen, nil
}

// hindrance judges one pod; its Reason is empty if nothing stands in the way. Pods that do not run yet, have finished
// or are being deleted are evicted without asking any budget.
func hindrance(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) Hindrance {
	h := Hindrance{Pod: nameOf(pod)}
	for _, budget := range budgets {
		h.Budgets = append(h.Budgets, budget.Name)
	}
	switch {
	case len(budgets) == 0, finished(pod), pod.Status.Phase == corev1.PodPending, pod.DeletionTimestamp != nil:
		return h
	case len(budgets) > 1:
		h.Reason = "selected by more than one disruption budget, which the eviction API refuses: " + strings.Join(h.Budgets, ", ")
		h.Never = true
		return h
	}
	h.Reason, h.Never = refusal(pod, &budgets[0])
	return h
}

// refusal says why a single budget would not let the pod go now, and whether that can change by itself.
func refusal(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) (reason string, never bool) {
	status := budget.Status
	policy := budget.Spec.UnhealthyPodEvictionPolicy
	ready := isReady(pod)
	switch {
	case !ready && policy != nil && *policy == policyv1.AlwaysAllow:
		return "", false
	case status.ObservedGeneration < budget.Generation:
		return fmt.Sprintf("disruption budget %s has not been processed since it changed", budget.Name), false
	case !ready && status.DesiredHealthy > 0 && status.CurrentHealthy >= status.DesiredHealthy:
		return "", false
	case status.DisruptionsAllowed > 0:
		return "", false
	case status.ExpectedPods > 0 && status.ExpectedPods <= status.DesiredHealthy:
		return fmt.Sprintf("disruption budget %s never allows a disruption: it wants %d of %d pods healthy", budget.Name, status.DesiredHealthy, status.ExpectedPods), true
	case !ready:
		return fmt.Sprintf("unhealthy and guarded by disruption budget %s, which has %d of %d healthy pods; unhealthyPodEvictionPolicy AlwaysAllow would let it go", budget.Name, status.CurrentHealthy, status.DesiredHealthy), false
	}
	return fmt.Sprintf("disruption budget %s needs %d healthy pods and has %d", budget.Name, status.DesiredHealthy, status.CurrentHealthy), false
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
