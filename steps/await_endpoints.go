package steps

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kuberung/kuberung/engine"
)

// AwaitEndpoints holds the way until the EndpointSlices of every Service with a pod on the node agree
// with the readiness of its pods. A budget counts ready pods; if traffic does not follow yet, it would
// allow what users notice.
func AwaitEndpoints(s *Session, host string) engine.Step[Facts] {
	return step{
		Name: "await-endpoints",
		Does: "wait until the endpoints of its Services agree with the readiness of their pods",
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			return await(ctx, s.Cluster.Timeouts.Gate, 2*time.Second, log, s.endpointsAgree(f.NodeName(host)))
		},
	}
}

func (s *Session) endpointsAgree(node string) condition {
	return func(ctx context.Context) (string, error) {
		client := s.api()
		services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("list Services: %w", err)
		}
		pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("list pods: %w", err)
		}
		slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("list EndpointSlices: %w", err)
		}
		return compareEndpoints(node, services.Items, pods.Items, slices.Items), nil
	}
}

// compareEndpoints names the first Service with a pod on the node whose ready endpoints are not its
// ready pods.
func compareEndpoints(node string, services []corev1.Service, pods []corev1.Pod, slices []discoveryv1.EndpointSlice) string {
	served := map[string]map[types.UID]bool{} // by namespace/service
	for _, slice := range slices {
		service := slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
		if served[service] == nil {
			served[service] = map[types.UID]bool{}
		}
		for _, e := range slice.Endpoints {
			if e.TargetRef != nil && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				served[service][e.TargetRef.UID] = true
			}
		}
	}
	for _, svc := range services {
		// An ExternalName has no endpoints even if it has a selector.
		if len(svc.Spec.Selector) == 0 || svc.Spec.PublishNotReadyAddresses || svc.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		if !selectsPodOn(node, svc, pods) {
			continue
		}
		if problem := compareService(svc, pods, served[svc.Namespace+"/"+svc.Name]); problem != "" {
			return problem
		}
	}
	return ""
}

func selectsPodOn(node string, svc corev1.Service, pods []corev1.Pod) bool {
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	for _, p := range pods {
		if p.Spec.NodeName == node && p.Namespace == svc.Namespace && selector.Matches(labels.Set(p.Labels)) {
			return true
		}
	}
	return false
}

func compareService(svc corev1.Service, pods []corev1.Pod, served map[types.UID]bool) string {
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	ready := map[types.UID]bool{}
	for _, p := range pods {
		if p.Namespace != svc.Namespace || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		if podReady(p) && p.DeletionTimestamp == nil {
			ready[p.UID] = true
			if !served[p.UID] {
				return fmt.Sprintf("pod %s/%s is Ready, but Service %s does not send to it yet", p.Namespace, p.Name, svc.Name)
			}
		}
	}
	for uid := range served {
		if !ready[uid] {
			return fmt.Sprintf("Service %s/%s still sends to a pod that is gone or not Ready", svc.Namespace, svc.Name)
		}
	}
	return ""
}
