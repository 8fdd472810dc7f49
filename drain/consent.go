package drain

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Consent lists the pods that an operator agreed to lose something of: "namespace/name" of a pod or of the workload that
// controls it (a Deployment by its own name), or "*" for all.
type Consent []string

// Covers reports whether the consent names the pod, its workload, or everything.
func (c Consent) Covers(pod *corev1.Pod) bool {
	if slices.Contains(c, "*") {
		return true
	}
	return slices.ContainsFunc(names(pod), func(name string) bool { return slices.Contains(c, name) })
}

// names returns what a pod may be called in a consent: its own name, its controller's, and that of the Deployment
// behind a ReplicaSet. The last outlives the others. The Deployment controller names a ReplicaSet after itself and the pod-template-hash label.
func names(pod *corev1.Pod) []string {
	all := []string{nameOf(pod)}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return all
	}
	all = append(all, pod.Namespace+"/"+owner.Name)
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if deployment, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && hash != "" && owner.Kind == "ReplicaSet" {
		all = append(all, pod.Namespace+"/"+deployment)
	}
	return all
}

// nameOf is how this package names a pod to people.
func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
