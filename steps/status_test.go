package steps

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// statuses are clusters that somebody asks about. internal/cli shows the same ones as text.
var statuses = []struct {
	name   string
	cps    int
	change func(*config.Cluster, Facts, *Facts, *Beside)
	want   State
}{
	{"finished", 3, func(c *config.Cluster, done Facts, f *Facts, b *Beside) {
		*f = done
		b.Snapshot = &Snapshot{"/srv/prod-data/snapshots/prod-20261201T031245Z-before-v1.36.3.db", 64 << 20, observedAt}
	}, Finished},
	{"not-begun", 1, func(*config.Cluster, Facts, *Facts, *Beside) {}, NotBegun},
	{"mid-way", 3, func(c *config.Cluster, _ Facts, f *Facts, b *Beside) {
		controlPlaneDone(c, f)
		f.arrived("w-1")
		f.node("w-2", func(n *Node) { n.Cordoned = true })
		b.Snapshot = &Snapshot{"/srv/prod-data/snapshots/prod-20261201T031245Z-before-v1.36.3.db", 64 << 20, observedAt}
	}, PartlyDone},
	{"interrupted", 3, func(c *config.Cluster, _ Facts, f *Facts, b *Beside) {
		f.Cluster.KubeadmVersion = target
		f.moved("cp-1", applyUnit(target))
		f.staged("cp-1")
		f.staged("cp-2")
		f.host("cp-2", func(h *Host) {
			h.binary("kubeadm", target)
			h.Units = []string{nodeUnit(target)}
			h.Kubeadm[nodeUnit(target)] = hosts.Record{State: hosts.Running}
		})
		b.Units = map[string]map[string]hosts.Record{"cp-2": {nodeUnit(target): {
			State: hosts.Running, Started: observedAt, Tail: "[upgrade] Backing up\n\x1b[1m[upgrade/etcd] Waiting for etcd to become available\x1b[0m\n",
		}}}
		f.host("w-1", func(h *Host) { h.Kubeadm[nodeUnit(target)] = hosts.Record{State: hosts.Interrupted} })
		f.opened("w-1")
		f.node("w-1", func(n *Node) {
			n.Ready, n.NotReady = false, "NodeStatusUnknown: Kubelet stopped posting node status."
		})
		held := Held{Holder: holder("anna", 4711), Age: 40 * time.Minute, Term: lockTerm}
		held.Since = observedAt
		b.Lock = &held
	}, Interrupted},
	{"one-host-down", 3, func(c *config.Cluster, _ Facts, f *Facts, b *Beside) {
		controlPlaneDone(c, f)
		f.arrived("w-1")
		f.Hosts["w-2"] = Host{Name: "w-2", Role: config.Worker, Address: "10.0.0.5", Err: errors.New("connect to w-2 (10.0.0.5:22): tcp connect: dial tcp 10.0.0.5:22: connect: no route to host")}
		f.Cluster.Nodes[nodeName("w-2")] = Node{Name: nodeName("w-2"), Kubelet: old, NotReady: "NodeStatusUnknown: Kubelet stopped posting node status.", Addresses: []string{"10.0.0.5"}}
	}, Untold},
	{"locked-by-somebody", 3, func(c *config.Cluster, _ Facts, f *Facts, b *Beside) {
		controlPlaneDone(c, f)
		f.opened("w-1")
		held := Held{Holder: holder("bert", 4711), Age: 12 * time.Second, Term: lockTerm, Beat: observedAt.Add(time.Hour)}
		held.Since = observedAt
		b.Lock = &held
		onHost := held
		onHost.Host, onHost.Age = "w-1", 8*time.Second
		b.HostLocks = []Held{onHost}
	}, AtWork},
	{"no-api", 1, func(c *config.Cluster, _ Facts, f *Facts, b *Beside) {
		f.Cluster = ClusterFacts{Err: errors.New("API server of cp-1: connection refused")}
		f.host("cp-1", func(h *Host) { h.APIVersion, h.APIErr = "", errors.New("API server of cp-1: connection refused") })
		b.LockErr = f.Cluster.Err
	}, Untold},
	{"leftovers", 1, func(c *config.Cluster, done Facts, f *Facts, b *Beside) {
		*f = done
		f.host("w-1", func(h *Host) { h.Staged[stageDir+"/v1.35.4/kubelet.0123456789abcdef"] = true })
		f.node("w-1", func(n *Node) { n.Cordoned, n.Window = true, drain.FoundCordoned })
		f.Cluster.Nodes["stray"] = Node{Name: "stray", Kubelet: old, Ready: true, Cordoned: true}
		f.Cluster.Etcd.Problems = []string{"cp-1: member does not answer", "cp-1: no leader"}
	}, Interrupted},
}

func controlPlaneDone(c *config.Cluster, f *Facts) {
	f.Cluster.KubeadmVersion = target
	for i, h := range controlPlanes(c) {
		unit := nodeUnit(target)
		if i == 0 {
			unit = applyUnit(target)
		}
		f.moved(h.Name, unit)
		f.arrived(h.Name)
	}
}

func TestStatus(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	for _, tt := range statuses {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster(tt.cps, 2)
			f, done, b := seen(c, old), seen(c, target), Beside{}
			f.Cluster.Etcd.Oldest, done.Cluster.Etcd.Oldest = "3.6.6", "3.6.8"
			tt.change(c, done, &f, &b)
			s := StatusOf(c, f, b)
			if s.State != tt.want {
				t.Errorf("it is %s, want %s", s.State, tt.want)
			}
			text, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "status/"+tt.name+".json", string(text)+"\n")
		})
	}
}

func TestTheLastSnapshot(t *testing.T) {
	c := cluster(1, 0)
	c.Data = t.TempDir()
	if s := lastSnapshot(c); s != nil {
		t.Errorf("without any: %+v", s)
	}
	dir := filepath.Join(c.Data, "snapshots")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"prod-20261201T031245Z-before-v1.36.3.db", "prod-20261130T031245Z-before-v1.36.3.db",
		"prod-20261202T031245Z-before-v1.36.3.db.part", "test-20261203T031245Z-before-v1.36.3.db",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("etcd"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := lastSnapshot(c)
	if s == nil || filepath.Base(s.Path) != "prod-20261201T031245Z-before-v1.36.3.db" || s.Size != 4 || s.At.IsZero() {
		t.Errorf("got %+v", s)
	}
}

// What a status goes by beside the facts is read from the hosts and the API, and nothing is changed.
func TestLookBeside(t *testing.T) {
	s, l := newStand(t), &leaseServer{}
	b := l.onStand(t, s, "bert", 2)
	if err := b.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.end(t)
	_, leave, err := b.s.Enter(t.Context(), "w-1")
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	runningUnit(s, nodeUnit(target), 1<<30)
	a := l.onStand(t, s, "anna", 1)
	writes, before := l.writes, s.on(lockOnHost)
	got := a.s.LookBeside(t.Context(), Facts{Hosts: map[string]Host{"w-1": {Units: []string{nodeUnit(target)}}}}, func(h Holder) bool { return h.Name == "bert@laptop" })
	if got.Lock == nil || !got.Lock.Over || len(got.HostLocks) != 1 || got.HostLocks[0].PID != 2 || !got.HostLocks[0].Expired() {
		t.Errorf("lock %+v, of hosts %+v", got.Lock, got.HostLocks)
	}
	if r := got.Units["w-1"][nodeUnit(target)]; r.State != hosts.Running || !strings.Contains(r.Tail, "[upgrade] busy") || r.Started.IsZero() {
		t.Errorf("the unit is %+v", r)
	}
	if d := cmp.Diff(before, s.on(lockOnHost)); d != "" || l.writes != writes {
		t.Errorf("a look changed something, %d writes, the host's lock (-before +after):\n%s", l.writes-writes, d)
	}
}
