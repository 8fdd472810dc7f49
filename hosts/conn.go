package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// conn is one live SSH connection. It dies once, with a reason, and is never revived.
type conn struct {
	host   string
	client *ssh.Client
	wire   *wire
	tune   tuning
	slots  chan struct{} // one token per open session
	loops  sync.WaitGroup

	dead chan struct{} // closed when the connection is gone
	once sync.Once
	why  error // set before dead is closed
}

func newConn(host string, client *ssh.Client, w *wire, t tuning) *conn {
	c := &conn{host: host, client: client, wire: w, tune: t, slots: make(chan struct{}, sessionsPerConn), dead: make(chan struct{})}
	c.loops.Go(func() {
		err := client.Wait()
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("closed by the host")
		}
		c.fail(err)
	})
	c.loops.Go(c.keepalive)
	return c
}

// fail ends the connection; the first reason given stays.
func (c *conn) fail(why error) {
	c.once.Do(func() {
		c.why = why
		close(c.dead)
	})
	c.client.Close()
}

func (c *conn) alive() bool {
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

// lost is the error of every call that a dead connection cuts short.
func (c *conn) lost() error {
	<-c.dead
	return fmt.Errorf("%w to %s: %w", ErrConnLost, c.host, c.why)
}

// whole makes sure that it was the host that ended a channel, and not a line that broke: that ends them as well.
func (c *conn) whole() error {
	if c.alive() && !c.wire.over.Load() {
		return nil
	}
	return c.lost()
}

// settle decides whether a channel ended because the connection did: err stays if the server still answers.
// A dying connection closes its channels a moment before it knows why.
func (c *conn) settle(err error) error {
	t := time.NewTimer(settleLimit)
	defer t.Stop()
	select {
	case <-c.dead:
		return c.lost()
	case sent := <-c.ping():
		if sent != nil {
			return c.lost()
		}
	case <-t.C:
	}
	return err
}

// settleLimit bounds a decision that takes one round trip.
const settleLimit = 2 * time.Second

// ping asks the server for a sign of life.
func (c *conn) ping() <-chan error {
	answer := make(chan error, 1)
	go func() {
		_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
		answer <- err
	}()
	return answer
}

// keepalive asks the server for a sign of life and ends the connection when none comes, so that no call
// blocks on a host that went away without saying so.
func (c *conn) keepalive() {
	tick := time.NewTicker(c.tune.keepaliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-tick.C:
		}
		limit := time.NewTimer(c.tune.keepaliveLimit)
		select {
		case <-c.dead:
		case err := <-c.ping():
			if err != nil {
				<-c.dead // the other loop learns the reason
			}
		case <-limit.C:
			c.fail(fmt.Errorf("no answer to a keepalive for %v", c.tune.keepaliveLimit))
		}
		limit.Stop()
	}
}

// openChannel opens a channel. While the server says it has too many it asks again until ctx ends: closing the
// connection to make room would cut what runs in the others.
func (c *conn) openChannel(ctx context.Context, kind string, payload []byte, tooMany func(ssh.RejectionReason) bool) (ssh.Channel, <-chan *ssh.Request, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		ch, reqs, err := c.openOnce(ctx, kind, payload)
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) || !tooMany(refused.Reason) {
			return ch, reqs, err
		}
		if cause := sleep(ctx, pause); cause != nil {
			return nil, nil, fmt.Errorf("open %s channel on %s: %w; last refusal: %w", kind, c.host, cause, err)
		}
	}
}

type opened struct {
	ch   ssh.Channel
	reqs <-chan *ssh.Request
	err  error
}

// openOnce asks once. A server can be alive and never answer (golang/go#26643). For a session that means that the
// connection is broken; for a tunnel only that the other end is silent, and what else runs here must not suffer.
func (c *conn) openOnce(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	waiting, gone := context.WithCancel(ctx)
	defer gone()
	answer := make(chan opened)
	go func() {
		ch, reqs, err := c.client.OpenChannel(kind, payload)
		select {
		case answer <- opened{ch, reqs, err}:
		case <-waiting.Done():
			if err == nil { // nobody waits any more
				go ssh.DiscardRequests(reqs)
				ch.Close()
			}
		}
	}()
	limit := time.NewTimer(c.tune.channelLimit)
	defer limit.Stop()
	select {
	case o := <-answer:
		return o.ch, o.reqs, c.openError(kind, o.err)
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("open %s channel on %s: %w: %w", kind, c.host, errNotSent, context.Cause(ctx))
	case <-limit.C:
	}
	if kind != "session" {
		return nil, nil, fmt.Errorf("open %s channel on %s: %w", kind, c.host, &limitError{c.tune.channelLimit})
	}
	c.fail(fmt.Errorf("no answer to a channel request for %v", c.tune.channelLimit))
	return nil, nil, fmt.Errorf("%w: %w", errNotSent, c.lost())
}

func (c *conn) openError(kind string, err error) error {
	var refused *ssh.OpenChannelError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return fmt.Errorf("open %s channel on %s: %w", kind, c.host, err)
	}
	return fmt.Errorf("open %s channel: %w: %w", kind, errNotSent, c.settle(err))
}
