package etcdbackup

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
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

// guard runs etcd's storage code, which panics on data that it does not expect.
func guard(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("etcd gave up: %v", r)
		}
	}()
	return do()
}

// readDatabase checks every page of the database and counts what is in it.
func readDatabase(ctx context.Context, path string) (c content, err error) {
	err = guard(func() error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		status, err := snapshot.NewV3(quiet()).Status(path)
		if err != nil {
			return err
		}
		compacted, err := compactRevision(path)
		c = content{revision: max(status.Revision, compacted), keys: status.TotalKey, version: status.Version}
		return err
	})
	if err != nil {
		return content{}, fmt.Errorf("its database is damaged: %w", err)
	}
	return c, nil
}

// compactRevision is the revision of the last compaction. It can be the latest of all: a compaction removes the record
// of a deletion, and with it the last trace of its revision among the keys.
func compactRevision(path string) (revision int64, err error) {
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			if value := meta.Get([]byte("scheduledCompactRev")); len(value) >= 8 {
				revision = int64(binary.BigEndian.Uint64(value))
			}
		}
		return nil
	})
	return revision, err
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
