package etcdbackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// stall is how long the stream may bring nothing before it is given up.
const stall = time.Minute

// download streams a snapshot into a new file, readable by its owner only, and syncs it.
func download(ctx context.Context, access Access, endpoint Endpoint, part string) error {
	ctx, watchdog := watch(ctx)
	defer watchdog.Stop()
	client, err := access.open(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	stream, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return because(ctx, "open stream", err)
	}
	defer stream.Snapshot.Close()
	return store(ctx, part, alive{stream.Snapshot, watchdog})
}

// watch returns a context that ends when the watchdog is not put off for too long.
func watch(ctx context.Context) (context.Context, *time.Timer) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %s", stall)) })
}

// store writes the stream to a file of its own; one that a killed run left there is removed.
func store(ctx context.Context, part string, stream io.Reader) error {
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := io.Copy(file, stream)
	if err != nil {
		return because(ctx, fmt.Sprintf("stream broke after %d bytes", n), err)
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return file.Close()
}

// alive puts the watchdog off with every piece that arrives.
type alive struct {
	io.Reader
	watchdog *time.Timer
}

func (a alive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.watchdog.Reset(stall)
	}
	return n, err
}
