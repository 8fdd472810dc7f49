package steps

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
)

// AwaitNode proves a node whose kubelet was restarted. The photo tells which containers were in a
// crash loop before.
func AwaitNode(s *Session, host string, photo Facts) engine.Step[Facts] {
	return step{
		Name: "await-node",
		Does: "wait until the node is Ready anew, its runtime answers and its pods are well",
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			node := f.NodeName(host)
			return await(ctx, s.Cluster.Timeouts.Gate, s.settle(), log, all(
				s.kubeletIs(node, f.Target),
				s.heartbeatAfterStart(host, node),
				s.runtimeAnswers(host, f.Hosts[host].CRI),
				s.podsWell(node, photo.Cluster),
			))
		},
	}
}

// heartbeatAfterStart holds when the kubelet that runs now has renewed its Lease, and the node is
// Ready. Both times are of the host's own clock.
func (s *Session) heartbeatAfterStart(host, node string) condition {
	return func(ctx context.Context) (string, error) {
		started, err := s.kubeletStarted(ctx, host)
		if err != nil {
			return "", err
		}
		lease, err := s.api().CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read the Lease of node %s: %w", node, err)
		}
		if lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.After(started) {
			return fmt.Sprintf("node %s sent no heartbeat since its kubelet started", node), nil
		}
		n, err := s.api().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read node %s: %w", node, err)
		}
		if seen := nodeOf(*n); !seen.Ready {
			return fmt.Sprintf("node %s is not Ready: %s", node, seen.NotReady), nil
		}
		return "", nil
	}
}

// kubeletStarted gives the time at which the running kubelet started, by the host's clock. A unit
// that is only "activating" is one that keeps crashing.
func (s *Session) kubeletStarted(ctx context.Context, host string) (time.Time, error) {
	out, err := s.host(host).Script(ctx, hosts.Script{Sudo: true, Timeout: 30 * time.Second, Text: `
state=$(systemctl is-active kubelet) || { echo "kubelet is $state" >&2; exit 1; }
date -d "$(systemctl show kubelet -p ActiveEnterTimestamp --value)" +%s`})
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("start time of the kubelet: %w", err)
	}
	return time.Unix(seconds, 0), nil
}

// runtimeAnswers holds when the container runtime answers over CRI that it is ready.
func (s *Session) runtimeAnswers(host, cri string) condition {
	return func(ctx context.Context) (string, error) {
		out, err := s.host(host).Run(ctx, hosts.Cmd{
			Argv: []string{"crictl", "--runtime-endpoint", cri, "info"}, Sudo: true, Timeout: 30 * time.Second,
		})
		if err != nil {
			return "", fmt.Errorf("ask the container runtime of %s: %w", host, err)
		}
		return runtimeProblem(out)
	}
}

// podsWell holds when every DaemonSet that was Ready on the node is so again, kube-proxy and the pod
// network among them, and no container there is newly in a crash loop.
func (s *Session) podsWell(node string, before ClusterFacts) condition {
	return func(ctx context.Context) (string, error) {
		pods, err := s.api().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return "", fmt.Errorf("list the pods of node %s: %w", node, err)
		}
		return podProblem(node, pods.Items, before), nil
	}
}

func podProblem(node string, pods []corev1.Pod, before ClusterFacts) string {
	ready := readyDaemons(pods)
	for _, name := range sorted(before.Daemons) {
		if daemon, here := strings.CutPrefix(name, node+" "); here && !ready[name] {
			return fmt.Sprintf("DaemonSet %s has no Ready pod on node %s, as it had before", daemon, node)
		}
	}
	for _, name := range sorted(crashing(pods)) {
		if !before.Crashing[name] {
			return fmt.Sprintf("container %s on node %s is in a crash loop, and was not before", name, node)
		}
	}
	return ""
}

func podReady(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
