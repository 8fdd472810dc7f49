package steps

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// Beside is what a status and an unlock go by beside the facts.
type Beside struct {
	Lock      *Held // of the cluster; nil: there is none
	LockErr   error // why it could not be read
	HostLocks []Held
	Failed    map[string]error                   // hosts whose lock could not be read
	Units     map[string]map[string]hosts.Record // that are at work, by host and name
	Snapshot  *Snapshot
}

// Snapshot is an etcd snapshot on the operator's disk.
type Snapshot struct {
	Path string    `json:"path"`
	Size int64     `json:"bytes"`
	At   time.Time `json:"at"`
}

// Locks reads the lock of the cluster and those of its hosts. Gone is as in NewLock.
func (s *Session) Locks(ctx context.Context, gone func(Holder) bool) Beside {
	var b Beside
	var wg sync.WaitGroup
	wg.Go(func() { b.HostLocks, b.Failed = s.hostLocks(ctx) })
	if b.LockErr = s.reachAPI(ctx); b.LockErr == nil {
		_, b.Lock, b.LockErr = s.readLease(ctx)
	}
	wg.Wait()
	if b.Lock != nil {
		b.Lock.Over = gone(b.Lock.Holder)
	}
	for i := range b.HostLocks {
		b.HostLocks[i].Over = gone(b.HostLocks[i].Holder)
	}
	return b
}

// LookBeside reads what a status tells beside the facts.
func (s *Session) LookBeside(ctx context.Context, f Facts, gone func(Holder) bool) Beside {
	b := s.Locks(ctx, gone)
	b.Units, b.Snapshot = map[string]map[string]hosts.Record{}, lastSnapshot(s.Cluster)
	var mu sync.Mutex
	s.eachHost(func(h config.Host) {
		running := map[string]hosts.Record{}
		for _, unit := range f.Hosts[h.Name].Units {
			record, err := s.host(h.Name).UnitRecord(ctx, unit)
			if err == nil && record.State != hosts.Running {
				continue // it has ended since
			}
			running[unit] = record // without its record it still runs
		}
		mu.Lock()
		defer mu.Unlock()
		b.Units[h.Name] = running
	})
	return b
}

// lastSnapshot gives the newest snapshot of a cluster on this disk; one that was not verified has another name.
func lastSnapshot(c *config.Cluster) *Snapshot {
	dir := filepath.Join(c.Data, "snapshots")
	entries, _ := os.ReadDir(dir) // sorted by name, which has the time in it; no directory: no snapshot
	for i := len(entries) - 1; i >= 0; i-- {
		name := entries[i].Name()
		info, err := entries[i].Info()
		if err == nil && strings.HasPrefix(name, c.Name+"-") && strings.HasSuffix(name, ".db") {
			return &Snapshot{filepath.Join(dir, name), info.Size(), info.ModTime()}
		}
	}
	return nil
}
