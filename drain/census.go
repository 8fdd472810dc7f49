package drain

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// census is what one pass knows of the workloads. Each list is read at most once, and only if a pod depends on it.
type census struct {
	budgets func() ([]policyv1.PodDisruptionBudget, error)
	pods    func(namespace string) ([]corev1.Pod, error)
	going   map[types.UID]bool // pods that are evicted in this pass
}

func newCensus(ctx context.Context, client kubernetes.Interface) *census {
	read := make(map[string]func() ([]corev1.Pod, error))
	return &census{
		going: make(map[types.UID]bool),
		budgets: once(ctx, func(ctx context.Context) ([]policyv1.PodDisruptionBudget, error) {
			return listBudgets(ctx, client)
		}),
		pods: func(namespace string) ([]corev1.Pod, error) {
			if read[namespace] == nil {
				read[namespace] = once(ctx, func(ctx context.Context) ([]corev1.Pod, error) {
					return listPods(ctx, client, namespace)
				})
			}
			return read[namespace]()
		},
	}
}

// once puts a read off until it is asked for, gives it its own limit, and keeps its answer.
func once[T any](ctx context.Context, read func(context.Context) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		var answer T
		err := call(ctx, func(ctx context.Context) (err error) {
			answer, err = read(ctx)
			return err
		})
		return answer, err
	})
}

func listPods(ctx context.Context, client kubernetes.Interface, namespace string) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// guarded reports whether a disruption budget is known to select the pod: the API server then decides.
func (c *census) guarded(pod *corev1.Pod) bool {
	budgets, err := c.guards(pod)
	return err == nil && len(budgets) > 0
}

func (c *census) guards(pod *corev1.Pod) ([]policyv1.PodDisruptionBudget, error) {
	all, err := c.budgets()
	if err != nil {
		return nil, err
	}
	return selecting(pod, all)
}

// last says why a pod that no budget is known to guard has to wait for another of its controller, "" if it need not.
// A pod that never had another would wait in vain. One that had may miss it for a moment: its controller may be slow to
// replace it, and a StatefulSet starts the replacement only when the evicted pod is gone.
func (c *census) last(p *evictee) string {
	owner := metav1.GetControllerOf(&p.pod)
	workload := fmt.Sprintf("%s %s/%s", owner.Kind, p.pod.Namespace, owner.Name)
	_, err := c.guards(&p.pod)
	var pods []corev1.Pod
	if err == nil {
		pods, err = c.pods(p.pod.Namespace)
	}
	if err != nil {
		return fmt.Sprintf("cannot tell whether it is the last ready pod of %s: %v", workload, err)
	}
	for i := range pods {
		other := &pods[i]
		if other.UID == p.pod.UID || !alive(other) || !controlledBy(other, owner.UID) {
			continue
		}
		p.hold.replicated = true
		if isReady(other) && !c.going[other.UID] {
			return ""
		}
	}
	if !p.hold.replicated {
		return ""
	}
	return fmt.Sprintf("the last ready pod of %s; waiting for another", workload)
}

func controlledBy(pod *corev1.Pod, owner types.UID) bool {
	controller := metav1.GetControllerOf(pod)
	return controller != nil && controller.UID == owner
}
