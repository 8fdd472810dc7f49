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

	// sftpStart is how long the server may take to say its version: a login shell that prints garbage makes
	// the client wait for ever (phpseclib#1371).
	sftpStart = 20 * time.Second

	// sendAhead is how many writes of 32 KiB are in flight: 4 MiB fill a long fat line.
	sendAhead = 128
)

// send writes f to the new file path on the host by SFTP.
func (h *Host) send(ctx context.Context, f *os.File, path string, progress func(int64)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendLimit, &limitError{sendLimit})
	defer cancel()
	return h.onConn(ctx, func(c *conn) error {
		s, err := c.openSession(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.ask(ctx, "subsystem", text("sftp")); err != nil {
			return err
		}
		src := &counted{f: f, tell: progress}
		defer src.stop()
		done := make(chan error, 1)
		// The library knows no contexts. A copy left behind ends with its channel or its connection.
		go func() { done <- copySFTP(s, src, path) }()
		select {
		case err = <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.dead:
			return c.lost()
		}
		if errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) {
			err = c.settle(err)
		}
		return err
	})
}

func copySFTP(s *session, src *counted, path string) error {
	replies, fromServer := io.Pipe()
	defer replies.Close()
	go func() { _, err := io.Copy(fromServer, s); fromServer.CloseWithError(err) }()
	go func() { _, _ = io.Copy(io.Discard, s.Stderr()) }()
	late := time.AfterFunc(sftpStart, func() { replies.CloseWithError(&limitError{sftpStart}) })
	client, err := sftp.NewClientPipe(replies, s, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(sendAhead))
	late.Stop()
	if err != nil {
		return fmt.Errorf("start sftp: %w", err)
	}
	defer client.Close()
	defer replies.Close() // before client.Close, which waits for the end of the replies
	out, err := client.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	// Concurrency must be asked for: plain ReadFrom guesses it from the reader's type.
	_, err = out.ReadFromWithConcurrency(src, sendAhead)
	if err = errors.Join(err, out.Close()); err != nil {
		_ = client.Remove(path) // best effort; a later upload clears what stays
	}
	return err
}

// counted tells how much of a file was read for sending, until it is stopped.
type counted struct {
	f *os.File

	mu   sync.Mutex
	sent int64
	tell func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
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
