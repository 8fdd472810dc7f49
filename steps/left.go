package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/kuberung/kuberung/drain"
)

// Left says in words what state a run that ended early leaves behind: each host's versions and
// windows. It asks the cluster once more, also when ctx has ended, but not for long.
func (s *Session) Left(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if s.api() == nil {
		return []string{"the cluster could not be asked"}
	}
	now := s.observeCluster(ctx)
	if now.Err != nil {
		return []string{"what state the nodes are in could not be read: " + now.Err.Error()}
	}
	var lines []string
	last := s.last()
	for _, h := range s.Cluster.Hosts {
		n := now.Nodes[last.Hosts[h.Name].NodeName]
		line := fmt.Sprintf("%s: kubelet %s", h.Name, n.Kubelet)
		if n.Window == drain.Cordoned {
			line += ", cordoned by kuberung and not released yet"
		} else if n.Cordoned {
			line += ", cordoned by somebody else"
		}
		if !n.Ready {
			line += ", not Ready"
		}
		lines = append(lines, line)
	}
	return lines
}
