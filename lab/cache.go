package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cache is the folder, outside the source tree, that keeps everything built. A product has a name that holds a digest
// of its recipe and appears under that name only when it is complete, so an interrupted build leaves nothing that a
// later one would take for finished.
type cache struct{ dir string }

// partial is the ending of what is being made.
const partial = ".part"

// digest is a short name for values: equal recipes have equal digests.
func digest(values ...any) string {
	sum := sha256.New()
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("digest of %T: %v", v, err)) // only plain data is digested
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// product returns the path of the file or folder called name, calling make to produce it at a temporary path first if
// it is not there yet.
func (c cache) product(name string, make func(tmp string) error) (string, error) {
	path := filepath.Join(c.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	tmp := path + partial
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := make(tmp); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return path, os.Rename(tmp, path)
}

// lock takes the file called name for this process, waiting for another one that holds it; release gives it back.
func (c cache) lock(ctx context.Context, name string) (release func(), err error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(c.dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if !said {
			say("another lab command holds %s: waiting for it", file.Name())
		}
		if err := pause(ctx, time.Second); err != nil {
			file.Close()
			return nil, fmt.Errorf("waiting for %s: %w", file.Name(), err)
		}
	}
}
