package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settle waits until the whole cluster, the sample workloads included, is at rest. A cluster that was loaded says for a
// while what was true when it was saved, so nodes count only once their kubelets have been heard of since.
func (b *bed) settle(ctx context.Context) error {
	began := time.Now()
	if err := await(ctx, "nodes heard of", 3*time.Minute, b.heartbeats); err != nil {
		return err
	}
	err := await(ctx, "cluster at rest", 4*time.Minute, func(ctx context.Context) error {
		if err := b.workloadsReady(ctx); err != nil {
			return err
		}
		if err := b.podsSettled(ctx); err != nil {
			return err
		}
		return b.spread(ctx)
	})
	if err != nil {
		return err
	}
	err = await(ctx, "Service answering", 2*time.Minute, b.answering)
	b.measured.add("settling", time.Since(began))
	return err
}

// answering asks the Service through every node for some seconds. What is seen of pods right after a load may be what was
// true when they were saved; their answers are not.
func (b *bed) answering(ctx context.Context) error {
	users := b.users(ctx)
	waited := pause(ctx, 5*time.Second)
	return errors.Join(users.verdict(&table{}, "", true), waited)
}

// heartbeats checks that every node is Ready, of the starting version, and has renewed its Lease in the last seconds.
func (b *bed) heartbeats(ctx context.Context) error {
	nodes, err := b.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) != len(b.nodes) {
		return fmt.Errorf("%d nodes, want %d", len(nodes.Items), len(b.nodes))
	}
	for _, n := range nodes.Items {
		if got := n.Status.NodeInfo.KubeletVersion; got != b.from {
			return fmt.Errorf("%s runs kubelet %s, want %s to begin with", n.Name, got, b.from)
		}
		lease, err := b.kube.CoordinationV1().Leases("kube-node-lease").Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !nodeReady(n) || lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > 20*time.Second {
			return fmt.Errorf("%s is not Ready, or was last heard of at %v", n.Name, lease.Spec.RenewTime)
		}
	}
	return nil
}

// spread sees to it that the Service stands on more than one node: draining one would prove nothing otherwise. Pods that
// were scheduled while only one node was Ready are all there; one is deleted then, and its successor must go elsewhere.
func (b *bed) spread(ctx context.Context) error {
	pods, err := b.pods(ctx, "default", "app=web")
	if err != nil {
		return err
	}
	on := map[string]bool{}
	for _, pod := range pods {
		on[pod.Spec.NodeName] = true
	}
	if len(on) >= 2 {
		return nil
	}
	err = b.kube.CoreV1().Pods("default").Delete(ctx, pods[0].Name, metav1.DeleteOptions{})
	return errors.Join(fmt.Errorf("all pods of the Service web were on one node: %v", on), err)
}
