package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/etcdbackup"
	"github.com/kuberung/kuberung/internal/config"
)

// TakeSnapshot saves etcd to the operator's disk and verifies it, before anything of the control
// plane moves.
func TakeSnapshot(s *Session) engine.Step[Facts] {
	return step{
		Name: "take-snapshot",
		Does: "save a verified etcd snapshot to this machine",
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			access, endpoints := s.etcdAccess()
			status := etcdbackup.Observe(ctx, access, endpoints)
			if problems := etcdbackup.Problems(status); len(problems) > 0 {
				return fmt.Errorf("etcd is not healthy, so no snapshot was taken: %s", strings.Join(problems, "; "))
			}
			leader, err := leaderOf(status)
			if err != nil {
				return err
			}
			dir := snapshotDir(s.Cluster)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			name := fmt.Sprintf("%s-%s-before-%s.db", s.Cluster.Name, time.Now().UTC().Format("20060102T150405Z"), f.Target)
			saved, err := etcdbackup.Save(ctx, access, leader.Endpoint, filepath.Join(dir, name))
			if err != nil {
				return err
			}
			log("%s: %s, revision %d, from %s, verified", saved.Path, mebibytes(saved.Size), saved.Revision, leader.Name)
			return nil
		},
	}
}

// snapshotDir is where the snapshots of a cluster are kept.
func snapshotDir(c *config.Cluster) string { return filepath.Join(c.Data, "snapshots") }

func leaderOf(status []etcdbackup.Status) (etcdbackup.Status, error) {
	for _, m := range status {
		if m.Err == nil && m.ID == m.Leader {
			return m, nil
		}
	}
	return etcdbackup.Status{}, errors.New("no etcd member says that it leads")
}

// HandOverEtcd moves etcd's leadership away from a member whose host is about to be touched. Where
// it leads can change at any time, so it is asked only now.
func HandOverEtcd(s *Session, host string) engine.Step[Facts] {
	return step{
		Name: "hand-over-etcd",
		Does: "let another etcd member lead, if this one does",
		Run: func(ctx context.Context, _ Facts, log engine.Logf) error {
			access, endpoints := s.etcdAccess()
			status := etcdbackup.Observe(ctx, access, endpoints)
			leader, err := leaderOf(status)
			if err != nil {
				return err
			}
			if leader.Name != host || len(status) == 1 {
				return nil
			}
			for _, m := range status {
				if m.Name != host && m.Err == nil && !m.Learner {
					log("leadership goes to %s", m.Name)
					return etcdbackup.MoveLeader(ctx, access, leader.Endpoint, m.ID)
				}
			}
			return errors.New("no other etcd member can lead")
		},
	}
}
