package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

const (
	sendLimit = 4 * time.Hour // one file; a dead line ends it much earlier, by keepalive

	// sendAhead is how many writes of 32 KiB are in flight: 4 MiB fill a long fat line.
	sendAhead = 128
)

// errNoSFTP: there is no SFTP to be had on the host, for another reason than the connection.
var errNoSFTP = errors.New("no SFTP")

// send writes all of src to the new file path on the host, as the login user: by SFTP, or by cat on a host where that
// does not work. A transfer that has begun is never begun again here.
func (h *Host) send(ctx context.Context, src io.ReaderAt, size int64, path string, progress func(int64)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendLimit, &limitError{sendLimit})
	defer cancel()
	ctx, moved, stop := h.whileMoving(ctx, progress)
	defer stop()
	if !h.noSFTP.Load() {
		err := h.sendSFTP(ctx, src, size, path, moved)
		if !errors.Is(err, errNoSFTP) || ctx.Err() != nil {
			return err
		}
		h.noSFTP.Store(true)
	}
	return h.sendCat(ctx, src, size, path, moved)
}

// whileMoving gives a context that ends when a transfer has made no progress for too long: a server may live and do
// nothing. What is on its way at the end has to arrive within that time, too.
func (h *Host) whileMoving(ctx context.Context, progress func(int64)) (moving context.Context, moved func(int64), stop func()) {
	moving, end := context.WithCancelCause(ctx)
	limit := h.tune.stallLimit
	late := time.AfterFunc(limit, func() { end(&stallError{limit}) })
	moved = func(sent int64) {
		late.Reset(limit)
		if progress != nil {
			progress(sent)
		}
	}
	return moving, moved, func() { late.Stop(); end(nil) }
}

// stallError is the cause of a context that a transfer without progress ended.
type stallError struct{ limit time.Duration }

func (e *stallError) Error() string { return fmt.Sprintf("nothing has moved for %v", e.limit) }

// Is makes it match context.DeadlineExceeded.
func (e *stallError) Is(target error) bool { return target == context.DeadlineExceeded }

// receiveText writes standard input to the new file "$1".
const receiveText = `
umask 077
set -C
: >"$1" || exit
cat >>"$1" || { code=$?; rm -f "$1"; exit $code; }`

func (h *Host) sendCat(ctx context.Context, src io.ReaderAt, size int64, path string, progress func(int64)) error {
	in := newCounted(src, size, progress)
	defer in.stop()
	_, err := h.exec(ctx, request{label: "receive by cat", text: receiveText, args: []string{path}, stdin: in, limit: sendLimit})
	return err
}

func (h *Host) sendSFTP(ctx context.Context, src io.ReaderAt, size int64, path string, progress func(int64)) error {
	in := newCounted(src, size, progress)
	defer in.stop()
	err := h.onConn(ctx, func(c *conn) error {
		s, err := c.openSession(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		done := make(chan error, 1)
		// The library knows no contexts. A copy left behind ends with its channel or its connection.
		go func() { done <- copySFTP(ctx, s, in, path) }()
		select {
		case err = <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.dead:
			return c.lost()
		}
		if err != nil {
			err = c.settle(err) // whatever it was, a connection that is gone is the reason
		}
		return err
	})
	var failed *sftp.StatusError
	if errors.As(err, &failed) {
		err = h.explain(ctx, err, path)
	}
	return err
}

func copySFTP(ctx context.Context, s *session, src io.Reader, path string) error {
	client, closeSFTP, err := startSFTP(ctx, s)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoSFTP, err)
	}
	defer closeSFTP()
	out, err := client.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	// Concurrency must be asked for: plain ReadFrom guesses it from the reader's type.
	_, err = out.ReadFromWithConcurrency(src, sendAhead)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// startSFTP waits for the server's version, but not for ever: a login shell that prints something first makes the
// client wait for a packet of that length, and a broken server may say nothing at all.
func startSFTP(ctx context.Context, s *session) (_ *sftp.Client, closeAll func(), err error) {
	if err := s.ask(ctx, "subsystem", text("sftp")); err != nil {
		return nil, nil, err
	}
	replies, fromServer := io.Pipe()
	go func() { _, err := io.Copy(fromServer, s); fromServer.CloseWithError(err) }()
	go func() { _, _ = io.Copy(io.Discard, s.Stderr()) }()
	limit := s.conn.tune.sftpStart
	late := time.AfterFunc(limit, func() { replies.CloseWithError(&limitError{limit}) })
	defer late.Stop()
	client, err := sftp.NewClientPipe(replies, s, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(sendAhead))
	if err != nil {
		replies.Close()
		return nil, nil, err
	}
	return client, func() {
		replies.Close() // before client.Close, which waits for the end of the replies
		client.Close()
	}, nil
}

// whyText tries what SFTP could not do, to hear the reason in words, and removes the file.
const whyText = `
head -c 1048576 /dev/zero >>"$1"
code=$?
rm -f "$1"
exit $code`

// explain asks the host why a file could not be written. OpenSSH says just "Failure", be it a full disk, a quota or a
// file system that is read-only.
func (h *Host) explain(ctx context.Context, failure error, path string) error {
	_, err := h.exec(ctx, request{label: "write", text: whyText, args: []string{path}})
	var exit *ExitError
	if !errors.As(err, &exit) {
		return failure
	}
	return fmt.Errorf("%w: %s", failure, lastWords(exit.Stderr, 400))
}

// counted reads a file for sending and tells how much was read, until it is stopped.
type counted struct {
	in io.Reader

	mu   sync.Mutex
	sent int64
	tell func(int64)
}

// newCounted tells at once that nothing was sent.
func newCounted(f io.ReaderAt, size int64, tell func(int64)) *counted {
	if tell != nil {
		tell(0)
	}
	// Every transfer has its own place in the file: one left behind may still be reading.
	return &counted{in: io.NewSectionReader(f, 0, size), tell: tell}
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += int64(n)
	if c.tell != nil && n > 0 {
		c.tell(c.sent)
	}
	return n, err
}

// stop: nobody listens any more.
func (c *counted) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell = nil
}
