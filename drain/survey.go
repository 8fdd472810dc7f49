package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubectl "k8s.io/kubectl/pkg/drain"
)

// Survey is what a drain of one node would do, sorted by namespace and name.
type Survey struct {
	Evict     []corev1.Pod // to be evicted, or already on their way out
	Refused   []Refusal    // if any, a drain evicts nothing at all
	Consented []Refusal    // what Evict would be refused without the consents that were given
}

// Refusal is a pod that must not be evicted without the operator's consent.
type Refusal struct {
	Pod     string // namespace/name
	Reason  string // what would be lost
	Consent string // the option that would allow it: "LocalData" or "Unmanaged"
	Name    string // what a consent had best name: the pod's workload, which outlives it, or a pod that has none
}

// Look decides for every pod on the node whether a drain may evict it, and changes nothing. DaemonSet and mirror pods are
// left out, finished pods may always go. Reads are repeated a few times before their error is returned.
func Look(ctx context.Context, client kubernetes.Interface, node string, o Options) (Survey, error) {
	o = o.withDefaults()
	var survey Survey
	err := persist(ctx, o.RetryDelay, func(ctx context.Context) (err error) {
		survey.Refused, survey.Consented = nil, nil
		survey.Evict, err = podsToDelete(ctx, client, node, o, boundTo(node), survey.withoutConsent(o))
		return err
	})
	if err != nil {
		return Survey{}, fmt.Errorf("list pods to evict from node %s: %w", node, err)
	}
	slices.SortFunc(survey.Evict, func(a, b corev1.Pod) int { return cmp.Compare(nameOf(&a), nameOf(&b)) })
	for _, list := range [][]Refusal{survey.Refused, survey.Consented} {
		slices.SortStableFunc(list, func(a, b Refusal) int { return cmp.Compare(a.Pod, b.Pod) })
	}
	return survey, nil
}

// boundTo leaves out pods of other nodes: the API server should not have listed them, and evicting one is never right.
func boundTo(node string) kubectl.PodFilter {
	return func(pod corev1.Pod) kubectl.PodDeleteStatus {
		if pod.Spec.NodeName != node {
			return kubectl.MakePodDeleteStatusSkip()
		}
		return kubectl.MakePodDeleteStatusOkay()
	}
}

// withoutConsent notes the pods that kubectl would delete by force, and leaves out those that nobody agreed to lose.
func (s *Survey) withoutConsent(o Options) kubectl.PodFilter {
	return func(pod corev1.Pod) kubectl.PodDeleteStatus {
		if missing := refusals(&pod, o); len(missing) > 0 {
			s.Refused = append(s.Refused, missing...)
			return kubectl.MakePodDeleteStatusSkip()
		}
		s.Consented = append(s.Consented, refusals(&pod, Options{})...)
		return kubectl.MakePodDeleteStatusOkay()
	}
}

// refusals says which consents a pod still lacks. A finished pod has nothing left to lose, and one that is already being
// deleted loses it anyway.
func refusals(pod *corev1.Pod, o Options) []Refusal {
	if finished(pod) || pod.DeletionTimestamp != nil {
		return nil
	}
	var all []Refusal
	called := names(pod)
	best := called[len(called)-1]
	if volumes := emptyDirs(pod); len(volumes) > 0 && !o.LocalData.Covers(pod) {
		reason := "data in emptyDir would be lost: " + strings.Join(volumes, ", ")
		all = append(all, Refusal{Pod: nameOf(pod), Reason: reason, Consent: "LocalData", Name: best})
	}
	if reason := unmanaged(pod); reason != "" && !o.Unmanaged.Covers(pod) {
		all = append(all, Refusal{Pod: nameOf(pod), Reason: reason, Consent: "Unmanaged", Name: best})
	}
	return all
}

// unmanaged says why nothing will create the pod again, "" if something will. kubectl keeps the pods of living
// DaemonSets back, so a DaemonSet pod seen after its filters is one whose DaemonSet is gone.
func unmanaged(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return "no controller would create it again"
	case owner.Kind == "DaemonSet":
		return "its DaemonSet " + owner.Name + " no longer exists"
	}
	return ""
}

func emptyDirs(pod *corev1.Pod) []string {
	var volumes []string
	for _, volume := range pod.Spec.Volumes {
		if volume.EmptyDir != nil {
			volumes = append(volumes, volume.Name)
		}
	}
	return volumes
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
