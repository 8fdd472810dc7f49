package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// coreDNSMoved checks that every CoreDNS is the new one by its own word, and that pods get names resolved.
func (b *bed) coreDNSMoved(ctx context.Context, w wanted) error {
	deployment, err := b.kube.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := rolledOut(deployment); err != nil {
		return err
	}
	pods, err := b.pods(ctx, "kube-system", "k8s-app=kube-dns")
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if got := imageTag(pod.Spec.Containers[0].Image); got != w.coreDNS {
			return fmt.Errorf("%s has the image tag %s, want %s", pod.Name, got, w.coreDNS)
		}
		metrics, err := b.kube.CoreV1().Pods("kube-system").ProxyGet("http", pod.Name, "9153", "/metrics", nil).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("%s does not tell its version: %w", pod.Name, err)
		}
		if want := fmt.Sprintf("version=%q", strings.TrimPrefix(w.coreDNS, "v")); !strings.Contains(string(metrics), want) {
			return fmt.Errorf("%s does not report %s", pod.Name, want)
		}
	}
	return b.namesResolve(ctx)
}

// namesResolve asks every web pod for the address of the web Service, by the resolver that the pod was given.
func (b *bed) namesResolve(ctx context.Context) error {
	service, err := b.kube.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := b.pods(ctx, "default", "app=web")
	if err != nil {
		return err
	}
	for _, pod := range pods {
		got, err := b.kube.CoreV1().Pods("default").ProxyGet("http", pod.Name, "8080", "/lookup",
			map[string]string{"name": "web.default.svc.cluster.local"}).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("%s cannot resolve the Service web: %w: %s", pod.Name, err, got)
		}
		if strings.TrimSpace(string(got)) != service.Spec.ClusterIP {
			return fmt.Errorf("%s resolves the Service web to %q, want %s", pod.Name, got, service.Spec.ClusterIP)
		}
	}
	return nil
}

// kubeProxyMoved checks that every node has a Ready kube-proxy of the new version.
func (b *bed) kubeProxyMoved(ctx context.Context, w wanted) error {
	set, err := b.kube.AppsV1().DaemonSets("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := onEveryNode(set, len(b.nodes)); err != nil {
		return err
	}
	pods, err := b.pods(ctx, "kube-system", "k8s-app=kube-proxy")
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if got := imageTag(pod.Spec.Containers[0].Image); got != w.version {
			return fmt.Errorf("%s on %s has the image tag %s, want %s", pod.Name, pod.Spec.NodeName, got, w.version)
		}
	}
	return nil
}

// workloadsSettled checks that everything that should run does, and that nothing crashes in a loop.
func (b *bed) workloadsSettled(ctx context.Context, _ wanted) error {
	return errors.Join(b.workloadsReady(ctx), b.podsSettled(ctx))
}

// workloadsReady checks the sample workloads. The bare pod is not among them: a drain deletes it for good.
func (b *bed) workloadsReady(ctx context.Context) error {
	web, err := b.kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	store, err := b.kube.AppsV1().StatefulSets("default").Get(ctx, "store", metav1.GetOptions{})
	if err != nil {
		return err
	}
	agent, err := b.kube.AppsV1().DaemonSets("default").Get(ctx, "agent", metav1.GetOptions{})
	if err != nil {
		return err
	}
	errs := []error{rolledOut(web), onEveryNode(agent, len(b.nodes))}
	if store.Status.ReadyReplicas != *store.Spec.Replicas {
		errs = append(errs, fmt.Errorf("the StatefulSet store has %d of %d replicas ready", store.Status.ReadyReplicas, *store.Spec.Replicas))
	}
	return errors.Join(errs...)
}

// podsSettled checks that every pod of the cluster is Ready or has completed.
func (b *bed) podsSettled(ctx context.Context) error {
	pods, err := b.pods(ctx, "", "")
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodSucceeded && !podReady(pod) {
			errs = append(errs, fmt.Errorf("pod %s/%s on %s is %s and not Ready%s", pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Status.Phase, waiting(pod)))
		}
	}
	return errors.Join(errs...)
}

func (b *bed) pods(ctx context.Context, namespace, labels string) ([]corev1.Pod, error) {
	list, err := b.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("no pods %s in namespace %q", labels, namespace)
	}
	return list.Items, nil
}

func podReady(pod corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// waiting says what the pod's containers wait for, such as CrashLoopBackOff.
func waiting(pod corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			return fmt.Sprintf(" (%s: %s %s)", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
		}
	}
	return ""
}

func rolledOut(d *appsv1.Deployment) error {
	want := *d.Spec.Replicas
	if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.AvailableReplicas != want || s.Replicas != want {
		return fmt.Errorf("the Deployment %s has %d replicas, %d updated and %d available, want %d", d.Name, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, want)
	}
	return nil
}

func onEveryNode(d *appsv1.DaemonSet, nodes int) error {
	want := int32(nodes)
	if s := d.Status; s.ObservedGeneration < d.Generation || s.DesiredNumberScheduled != want || s.UpdatedNumberScheduled != want || s.NumberAvailable != want {
		return fmt.Errorf("the DaemonSet %s is wanted on %d nodes, updated on %d and available on %d, want %d", d.Name, s.DesiredNumberScheduled, s.UpdatedNumberScheduled, s.NumberAvailable, want)
	}
	return nil
}

// imageTag returns what follows the last colon of an image reference that has a tag.
func imageTag(image string) string { return image[strings.LastIndexByte(image, ':')+1:] }
