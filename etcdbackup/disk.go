package etcdbackup

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// margin is what a trial restore writes besides the database: etcd reserves 64 MB for its log.
const margin = 128 << 20

// checkRoom is an error if dir cannot take a database of size bytes and its trial restore.
func checkRoom(dir string, size int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	return enoughRoom(dir, uint64(size), uint64(fs.Bavail)*uint64(fs.Bsize))
}

func enoughRoom(dir string, size, free uint64) error {
	need := 2*size + margin
	if free >= need {
		return nil
	}
	const mib = 1 << 20
	return fmt.Errorf("not enough space in %s: %d MiB free, %d MiB needed (the snapshot and its trial restore)", dir, free/mib, (need+mib-1)/mib)
}

// writeSynced replaces a file in one step, readable by its owner only.
func writeSynced(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	if _, err := temp.Write(data); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// syncDir makes renames in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
