package steps

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kuberung/kuberung/etcdbackup"
)

func TestLeaderOf(t *testing.T) {
	member := func(name string, id, leader uint64, err error) etcdbackup.Status {
		return etcdbackup.Status{Endpoint: etcdbackup.Endpoint{Name: name}, ID: id, Leader: leader, Err: err}
	}
	got, err := leaderOf([]etcdbackup.Status{member("a", 1, 2, nil), member("b", 2, 2, nil)})
	if err != nil || got.Name != "b" {
		t.Errorf("got %s, %v, want b", got.Name, err)
	}
	for _, status := range [][]etcdbackup.Status{
		nil,
		{member("a", 1, 2, nil)},
		{member("a", 1, 1, errors.New("no answer"))},
	} {
		if got, err := leaderOf(status); err == nil {
			t.Errorf("of %+v %s leads, want an error", status, got.Name)
		}
	}
}

// Without a healthy etcd there is no snapshot, and so nothing that comes after it.
func TestNoSnapshotOfAnUnhealthyEtcd(t *testing.T) {
	_, session, _ := standCluster(t)
	session.Cluster.Data = t.TempDir()
	f := session.Observe(t.Context())
	err := TakeSnapshot(session).Run(t.Context(), f, quiet)
	if err == nil || !strings.HasPrefix(err.Error(), "etcd is not healthy, so no snapshot was taken: ") {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(session.Cluster.Data, "snapshots")); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
	if err := HandOverEtcd(session, "cp-1").Run(t.Context(), f, quiet); err == nil {
		t.Error("leadership was handed over by nobody")
	}
	access, endpoints := session.etcdAccess()
	if len(endpoints) != 1 || endpoints[0].Name != "cp-1" || access.TLS == nil {
		t.Errorf("endpoints are %+v", endpoints)
	}
	if _, err := access.Dial(t.Context(), "10.9.9.9:2379"); err == nil || err.Error() != "10.9.9.9:2379 belongs to no control plane of the cluster file" {
		t.Errorf("error is %v", err)
	}
}
