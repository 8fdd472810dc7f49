package hosts

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// collect copies both streams; drained is closed at the end of both.
func collect(s *session, stdout, stderr io.Writer) (drained <-chan struct{}) {
	done := make(chan struct{})
	var both sync.WaitGroup
	// A read error is the end of the channel; exit status and connection say why.
	both.Go(func() { _, _ = io.Copy(stdout, s) })
	both.Go(func() { _, _ = io.Copy(stderr, s.Stderr()) })
	go func() { both.Wait(); close(done) }()
	return done
}

// feed writes the script, then the standard input. A program may end without reading it all, so the only
// error worth telling is one of reading stdin; it cuts the session, because a false end of input would be worse.
func feed(s *session, script string, stdin io.Reader) error {
	if _, err := io.WriteString(s, script); err != nil {
		return nil
	}
	if stdin != nil {
		src := &source{Reader: stdin}
		if _, _ = io.Copy(s, src); src.err != nil {
			s.Close()
			return src.err
		}
	}
	_ = s.CloseWrite() // fails only on a dead channel
	return nil
}

// source remembers what went wrong with reading, as opposed to writing.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// noStatus says why a session ended without an exit status.
func (s *session) noStatus(fed <-chan error) error {
	select {
	case err := <-fed:
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	default:
	}
	return s.conn.settle(fmt.Errorf("sshd on %s closed the session without an exit status", s.conn.host))
}

// quiet waits for the end of both streams, but not for a background child that holds them open: after the
// exit status, silence that lasts until the server has answered a ping is an end as well. Without the ping a
// stalled line would look like silence, and the output would be cut.
func quiet(ctx context.Context, c *conn, drained, stir <-chan struct{}) {
	for {
		t := time.NewTimer(c.tune.outputGrace)
		select {
		case <-drained:
		case <-stir:
			t.Stop()
			continue
		case <-t.C:
			select {
			case <-drained:
			case <-stir:
				continue
			case <-c.ping():
				if len(stir) > 0 {
					continue
				}
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		t.Stop()
		return
	}
}
