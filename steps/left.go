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
	last := s.last()
	last.Cluster = now
	for _, h := range s.Cluster.Hosts {
		if _, seen := last.Hosts[h.Name]; !seen {
			last.Hosts[h.Name] = Host{Name: h.Name, Role: h.Role, Address: h.Address}
		}
	}
	var lines []string
	for _, h := range s.Cluster.Hosts {
		lines = append(lines, last.leftOf(h.Name))
	}
	return lines
}

// leftOf is the state of one host, as its node tells it. A host that could not be asked is told with its node's name,
// because that is what is left to look it up by.
func (f Facts) leftOf(host string) string {
	n := f.Node(host)
	who := host
	if f.Hosts[host].Err != nil {
		who = f.called(host) + " could not be asked"
	}
	if n.Name == "" {
		return who + ": which node it is, is not known"
	}
	line := fmt.Sprintf("%s: kubelet %s", who, n.Kubelet)
	if n.Window == drain.Cordoned {
		line += ", cordoned by kuberung and not released yet"
	} else if n.Cordoned {
		line += ", cordoned by somebody else"
	}
	if !n.Ready {
		line += ", not Ready"
	}
	return line
}
