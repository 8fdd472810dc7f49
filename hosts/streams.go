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

// feed writes what the host is to read: the lines that make a shell there run the script, then its standard input.
// A program may end without reading it all, so what goes wrong with writing is not told. An error of reading stdin, or
// of becoming root, cuts the session: a false end of input would be worse. It is told first, being the reason.
func (c *call) feed(ctx context.Context, told chan<- error) {
	err := c.feedAll(ctx)
	told <- err
	if err != nil {
		c.session.Close()
		return
	}
	_ = c.session.CloseWrite() // fails only on a dead channel
}

func (c *call) feedAll(ctx context.Context) error {
	if _, err := io.WriteString(c.session, c.first()); err != nil {
		return nil
	}
	if c.pass != nil {
		if there, err := c.converse(ctx); err != nil || !there {
			return err
		}
	}
	if !c.decide() {
		return nil
	}
	c.sent <- time.Now()
	if _, err := io.WriteString(c.session, c.lines()); err != nil || c.req.stdin == nil || !c.mayConsume(ctx) {
		return nil
	}
	src := &source{Reader: c.req.stdin}
	_, _ = io.Copy(c.session, src)
	if src.err != nil {
		return fmt.Errorf("%s: standard input: %w", c.req.label, src.err)
	}
	return nil
}

// mayConsume waits, where sudo may still refuse, until the script runs: standard input can be read but once, and the
// script may have to be run again. False: it never ran.
func (c *call) mayConsume(ctx context.Context) bool {
	if c.sure {
		return true
	}
	select {
	case <-c.stdout.begun:
		return true
	case <-c.drained:
	case <-ctx.Done():
	}
	return false
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

// quiet waits for the end of both streams, but not for a background child that holds them open: after the
// exit status, silence that lasts until the server has answered a ping is an end as well. Without the ping a
// stalled line would look like silence, and the output would be cut. An error says that the output may not be whole.
func quiet(ctx context.Context, c *conn, drained, stir <-chan struct{}) error {
	for {
		t := time.NewTimer(c.tune.outputGrace)
		select {
		case <-drained:
		case <-stir:
		case <-ctx.Done():
		case <-t.C:
			select {
			case <-drained:
			case <-stir:
			case <-ctx.Done():
			case err := <-c.ping():
				if err != nil {
					return c.lost()
				}
				if len(stir) == 0 {
					return nil
				}
			}
		}
		t.Stop()
		select {
		case <-drained:
			return c.whole()
		default:
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
