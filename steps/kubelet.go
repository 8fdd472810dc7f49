package steps

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
)

// RestartKubelet starts the kubelet that was installed and waits until its Node reports it.
func RestartKubelet(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "restart-kubelet",
		Does:  "restart the kubelet",
		Needs: func(f Facts) string { return needsRestart(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			_, err := s.host(host).Script(ctx, hosts.Script{
				Text: "systemctl daemon-reload && systemctl restart kubelet", Sudo: true, Timeout: 3 * time.Minute,
			})
			if err != nil {
				return fmt.Errorf("systemctl restart kubelet: %w", err)
			}
			return await(ctx, s.Cluster.Timeouts.Gate, 0, log, s.kubeletIs(f.NodeName(host), f.Target))
		},
	}
}

// kubeletIs holds when the Node reports the version. It says nothing of health: the report of the
// new version comes before the static pods of a control plane restart.
func (s *Session) kubeletIs(node, version string) condition {
	return func(ctx context.Context) (string, error) {
		n, err := s.api().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read node %s: %w", node, err)
		}
		if v := n.Status.NodeInfo.KubeletVersion; v != version {
			return fmt.Sprintf("node %s still reports kubelet %s", node, v), nil
		}
		return "", nil
	}
}
