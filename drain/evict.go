package drain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// evict asks the API server to evict exactly this pod: the UID keeps one of the same name, recreated elsewhere, alive.
// The grace period is the pod's own.
//
// The typed client would sleep out a Retry-After itself, up to ten times, and tell nobody why. So the request is sent
// without retries where there is a connection; a client without one, such as a fake, is asked in its own way.
func evict(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
	conn, ok := client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || conn == nil {
		return client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, eviction)
	}
	return conn.Post().MaxRetries(0).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(eviction).Do(ctx).Error()
}

// verdict is what an answer to an eviction means for the next one.
type verdict int

const (
	accepted verdict = iota // it will go, or the next list shows that it is gone
	later                   // ask again: time alone may help
	doubtful                // ask again for a while: normally final, but also seen from an API server that is starting
	hopeless                // no time will help
)

// stopping is the reason while a pod has its grace period.
const stopping = "evicted, stopping"

// judge reads the answer to an eviction.
func judge(err error) (verdict, string) {
	switch {
	case err == nil:
		return accepted, stopping
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Gone, or another UID by now. The list of the node's pods has the last word.
		return accepted, "gone by the eviction's answer, but still listed: " + err.Error()
	case apierrors.IsTooManyRequests(err):
		return later, refusedBy(err)
	case strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		return hopeless, "more than one disruption budget selects it, such a pod can never be evicted"
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return later, "its namespace is being deleted, which deletes the pod too"
	case !mayPass(err):
		return doubtful, err.Error()
	}
	return later, err.Error()
}

// refusedBy prefers the cause that names the disruption budget to the general sentence around it.
func refusedBy(err error) string {
	if cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); ok && cause.Message != "" {
		return cause.Message
	}
	return err.Error()
}

// pauseAfter is how long to wait before the pod is evicted again: the API server's wish if it is longer than ours, but
// never so long that a healed cluster is noticed late.
func pauseAfter(err error, delay time.Duration) time.Duration {
	const longest = time.Minute
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return max(delay, min(time.Duration(seconds)*time.Second, longest))
	}
	return delay
}

// unanswered reports whether the call ended by its own limit, so that an earlier reason says more.
func unanswered(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// leaving describes a pod that is being deleted. The API server sets the deletion timestamp to the end of the grace
// period, so a pod that outlives it by more than a moment is stuck.
func leaving(pod *corev1.Pod, now time.Time) string {
	const slack = 30 * time.Second
	over := now.Sub(pod.DeletionTimestamp.Time)
	if over <= slack {
		return stopping
	}
	stuck := fmt.Sprintf("stuck: should have stopped by %s", pod.DeletionTimestamp.UTC().Format(time.RFC3339))
	if len(pod.Finalizers) > 0 {
		stuck += ", held by finalizers " + strings.Join(pod.Finalizers, ", ")
	}
	return stuck + condition(pod)
}

// condition adds what the kubelet last said of a pod, such as a container that waits for its image.
func condition(pod *corev1.Pod) string {
	said := fmt.Sprintf(", phase %s", pod.Status.Phase)
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			said += fmt.Sprintf(", container %s waits: %s", c.Name, w.Reason)
		}
	}
	return said
}
