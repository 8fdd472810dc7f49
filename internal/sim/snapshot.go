package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// How long etcd is without a leader after the last one went.
const (
	electionFrom = time.Second
	electionTo   = 2 * time.Second
)

// snapshotRevision is the revision of the key space in the snapshot that every member gives.
const snapshotRevision = 2

var prepared struct {
	once     sync.Once
	snapshot []byte
	err      error
}

// Prepare makes, once in a process, what all worlds share and no bubble may make for another: the database that all
// members give as their snapshot, a real one, which passes every check there is and can be restored; and the resolver's
// configuration, for package net keeps a channel with it.
func Prepare(ctx context.Context) error {
	prepared.once.Do(func() {
		nobody := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
		resolver := &net.Resolver{PreferGo: true, Dial: nobody}
		_, _ = resolver.LookupHost(ctx, "nobody.invalid.") // it need not succeed
		prepared.snapshot, prepared.err = makeSnapshot()
	})
	return prepared.err
}

func makeSnapshot() ([]byte, error) {
	dir, err := os.MkdirTemp("", "kuberung-sim-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	data, err := database(filepath.Join(dir, "db"))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return append(data, sum[:]...), nil
}

func database(path string) ([]byte, error) {
	quiet := zap.NewNop()
	b := backend.NewDefaultBackend(quiet, path)
	tx := b.BatchTx()
	tx.Lock()
	schema.UnsafeCreateMetaBucket(tx)
	schema.UnsafeUpdateConsistentIndex(tx, 1, 1)
	tx.Unlock()
	s := mvcc.NewStore(quiet, b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	s.Put([]byte("/registry/namespaces/default"), []byte("as real as it gets"), lease.NoLease)
	s.Commit()
	if err := s.Close(); err != nil {
		return nil, err
	}
	if err := b.Close(); err != nil {
		return nil, err
	}
	return compacted(path)
}

// compacted reads the database without the room that etcd reserves in it: it travels and is hashed often.
func compacted(path string) ([]byte, error) {
	from, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := bolt.Open(path+".small", 0o600, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(bolt.Compact(to, from, 0), to.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path + ".small")
}
