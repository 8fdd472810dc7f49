package etcdbackup

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// stall is how long the stream may bring nothing before it is given up.
const stall = time.Minute

// download streams a snapshot into a new file, readable by its owner only, and syncs it.
func download(ctx context.Context, access Access, endpoint Endpoint, part string) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client, err := access.open(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	watchdog := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %s", stall)) })
	defer watchdog.Stop()
	stream, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return because(ctx, "open stream", err)
	}
	defer stream.Snapshot.Close()
	return store(ctx, part, alive{stream.Snapshot, watchdog})
}

// store writes the stream to a file that did not exist before.
func store(ctx context.Context, part string, stream io.Reader) (err error) {
	if err := os.Remove(part); err != nil && !os.IsNotExist(err) {
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
	a.watchdog.Reset(stall)
	return n, err
}
