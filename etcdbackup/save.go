package etcdbackup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Save takes a snapshot from one member and returns its description once it is proven: digest, database, keys, a
// revision not older than the member's before, and a trial restore. The file, its ".json" and the directory are synced
// before the file gets its name. It never overwrites; a failure leaves no file under the name. The directory must exist
// and have room for twice the database.
func Save(ctx context.Context, access Access, endpoint Endpoint, path string) (Snapshot, error) {
	s, err := save(ctx, access, endpoint, path)
	if err != nil {
		return Snapshot{}, fmt.Errorf("save snapshot of etcd member %s to %s: %w", endpoint, path, err)
	}
	return s, nil
}

func save(ctx context.Context, access Access, endpoint Endpoint, path string) (Snapshot, error) {
	if err := absent(path); err != nil {
		return Snapshot{}, err
	}
	before := observe(ctx, access, endpoint)
	if before.Err != nil {
		return Snapshot{}, before.Err
	}
	if err := checkRoom(filepath.Dir(path), before.DBSize); err != nil {
		return Snapshot{}, err
	}
	part := path + ".part"
	defer os.Remove(part)
	taken := time.Now().UTC()
	if err := download(ctx, access, endpoint, part); err != nil {
		return Snapshot{}, err
	}
	s, err := prove(ctx, part, before)
	if err != nil {
		return Snapshot{}, err
	}
	s.Path, s.Taken = path, taken
	return s, publish(s, part)
}

// prove checks the downloaded file against itself and against what the member said before.
func prove(ctx context.Context, part string, before Status) (Snapshot, error) {
	s, err := inspect(ctx, part)
	if err != nil {
		return Snapshot{}, err
	}
	if s.Revision < before.Revision {
		return Snapshot{}, fmt.Errorf("it ends at revision %d, but the member was at %d before", s.Revision, before.Revision)
	}
	if err := tryRestore(ctx, part); err != nil {
		return Snapshot{}, err
	}
	s.Endpoint, s.MemberID, s.ClusterID = before.Endpoint, before.ID, before.ClusterID
	s.MemberVersion, s.Members = before.Version, before.Members
	return s, nil
}

// publish writes the description, then gives the file its name: whoever finds the name finds everything.
func publish(s Snapshot, part string) error {
	description, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := absent(s.Path); err != nil {
		return err
	}
	if err := writeSynced(sidecar(s.Path), append(description, '\n')); err != nil {
		return err
	}
	if err := os.Rename(part, s.Path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.Path))
}

// absent is an error that wraps fs.ErrExist if there is anything at path.
func absent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("refused to overwrite: %w", fs.ErrExist)
}
