package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/engine"
)

// Cordon opens a window on a node: what has to be put back is noted on the Node itself.
func Cordon(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "cordon",
		Does:  "keep new pods off the node",
		Needs: func(f Facts) string { return needsCordon(f, host) },
		Run: func(ctx context.Context, f Facts, _ engine.Logf) error {
			return drain.Cordon(ctx, s.api(), f.NodeName(host))
		},
	}
}

// DrainNode moves the pods away. If that fails, nothing was changed on the host yet, so the node is
// given back.
func DrainNode(s *Session, host string) engine.Step[Facts] {
	return step{
		Name: "drain",
		Does: "evict the pods and wait until they are gone",
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			node := f.NodeName(host)
			err := drain.Node(ctx, s.api(), node, s.drainOptions(log))
			if err == nil || ctx.Err() != nil {
				return err
			}
			if needsRestart(f, host) != "" && needsBinary(f, host, "kubelet") == "" {
				return fmt.Errorf("%w; the node stays cordoned, for its kubelet was already replaced", err)
			}
			return errors.Join(err, s.giveBack(ctx, node, log))
		},
	}
}

func (s *Session) giveBack(ctx context.Context, node string, log engine.Logf) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	released, err := drain.Uncordon(ctx, s.api(), node)
	if err != nil {
		return fmt.Errorf("node %s stays cordoned: %w", node, err)
	}
	if released {
		log("nothing was changed on %s; it is uncordoned again", node)
	}
	return nil
}

// Uncordon closes the window. A cordon that somebody else had set stays.
func Uncordon(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "uncordon",
		Does:  "let pods onto the node again, unless somebody else had cordoned it",
		Needs: func(f Facts) string { return needsRelease(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			node := f.NodeName(host)
			released, err := drain.Uncordon(ctx, s.api(), node)
			if err == nil && !released {
				log("node %s stays cordoned: it was before we came", node)
			}
			return err
		},
	}
}

// drainOptions are the consents and limits of the cluster file.
func (s *Session) drainOptions(log engine.Logf) drain.Options {
	o := drain.Options{
		LocalData: drain.Consent(s.Cluster.Drain.DeleteLocalData),
		Unmanaged: drain.Consent(s.Cluster.Drain.DeleteUnmanaged),
		Timeout:   s.Cluster.Drain.Timeout,
	}
	if log != nil {
		o.Logf = log
	}
	return o
}
