package etcdbackup

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// content is what the database in a snapshot holds.
type content struct {
	revision int64
	keys     int
	version  string // storage version
}

// quiet is a logger for etcd's storage code, which ends the process through it where an error would do; here it panics,
// and guard makes that an error.
func quiet() *zap.Logger { return zap.NewNop().WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic)) }

// guard runs storage code that panics, or touches memory that is not there, when data is not as it expects.
func guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return do()
}

// readDatabase checks every page of the database and counts what is in it. etcd's check looks at more than the walk
// does, but partly in goroutines of its own, where a panic would end the process: it sees only what could be walked.
func readDatabase(ctx context.Context, path string) (c content, err error) {
	err = guard(func() error {
		compacted, err := walk(ctx, path)
		if err != nil {
			return err
		}
		status, err := snapshot.NewV3(quiet()).Status(path)
		c = content{revision: max(status.Revision, compacted), keys: status.TotalKey, version: status.Version}
		return err
	})
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return content{}, context.Cause(ctx)
	}
	return content{}, fmt.Errorf("its database is damaged: %w", err)
}

// walk reads every key and value of every bucket, and returns the revision of the last compaction.
func walk(ctx context.Context, path string) (compacted int64, err error) {
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		compacted = compactRevision(tx)
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return walkBucket(ctx, b) })
	})
	return compacted, err
}

func walkBucket(ctx context.Context, b *bolt.Bucket) error {
	touched := crc32.NewIEEE()
	return b.ForEach(func(key, value []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if value == nil {
			return walkBucket(ctx, b.Bucket(key))
		}
		touched.Write(key)
		touched.Write(value)
		return nil
	})
}

// compactRevision can be the latest revision of all: a compaction removes the record of a deletion, and with it the
// last trace of its revision among the keys. etcd starts from it for the same reason.
func compactRevision(tx *bolt.Tx) int64 {
	meta := tx.Bucket([]byte("meta"))
	if meta == nil {
		return 0
	}
	value := meta.Get([]byte("scheduledCompactRev"))
	if len(value) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value))
}

// tryRestore restores the snapshot into a directory beside it and removes that again. It is what proves that the file
// can be used; the member and its addresses are invented and never start.
func tryRestore(ctx context.Context, path string) error {
	dir := path + ".restore"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	err := guard(func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return snapshot.NewV3(quiet()).Restore(snapshot.RestoreConfig{
			SnapshotPath:        path,
			OutputDataDir:       dir,
			Name:                "trial",
			PeerURLs:            []string{"http://127.0.0.1:2380"},
			InitialCluster:      "trial=http://127.0.0.1:2380",
			InitialClusterToken: "trial",
		})
	})
	if err != nil {
		return fmt.Errorf("trial restore: %w", err)
	}
	return nil
}
