package hosts

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

// call is one attempt to run a request.
type call struct {
	host *Host
	req  request
	last bool // when its context ends, the remote process is left alone: this is what ends another one

	// How it becomes root.
	way  way
	sure bool    // the script begins for certain: nothing becomes root, or has become so in this way before
	pass *pass   // nil: no password is needed
	talk *dialog // with the sudo that asks for it

	// What run makes.
	session        *session
	nonce          string
	stdout, stderr *output
	stir           chan struct{}
	drained        <-chan struct{} // closed at the end of both streams
	sent           chan time.Time  // when the script went out
}

// run runs the request in a fresh session.
func (c *call) run(ctx context.Context, s *session) ([]byte, error) {
	c.session, c.nonce = s, rand.Text()
	c.stir, c.sent = make(chan struct{}, 1), make(chan time.Time, 1)
	c.stdout = &output{nonce: c.nonce, stir: c.stir, begun: make(chan struct{})}
	c.stderr = &output{nonce: c.nonce, stir: c.stir}
	if err := s.ask(ctx, "exec", text(loader)); err != nil {
		return nil, fmt.Errorf("%s: %w", c.req.label, err)
	}
	c.drained = collect(s, c.stdout, c.stderr)
	fed := make(chan error, 1)
	go c.feed(ctx, fed)
	e, err := c.await(ctx, fed)
	if err != nil {
		return nil, err
	}
	quiet(ctx, s.conn, c.drained, c.stir)
	if began := c.stdout.firstByte(); c.req.span != nil && !began.IsZero() {
		*c.req.span = span{<-c.sent, began}
	}
	if c.pass != nil && !c.started() {
		return nil, c.host.neverStarted(c.req, e, c.stdout.all(), c.talk.clean(c.stderr.all()), true)
	}
	return c.host.result(c.req, e, c.stdout, c.stderr)
}

// await waits for the exit status. If ctx ends first it ends the remote process.
func (c *call) await(ctx context.Context, fed <-chan error) (exit, error) {
	for {
		select {
		case e, ok := <-c.session.exited:
			if !ok {
				return exit{}, fmt.Errorf("%s: %w", c.req.label, c.noStatus(fed))
			}
			return e, nil
		case err := <-fed:
			if err != nil {
				return exit{}, err
			}
			fed = nil
		case <-ctx.Done():
			if !c.last {
				c.host.end(ctx, c.session, c.stdout, c.req.privileged)
			}
			return exit{}, fmt.Errorf("%s on %s: %w", c.req.label, c.host.cfg.Name, context.Cause(ctx))
		}
	}
}

// noStatus says why a session ended without an exit status.
func (c *call) noStatus(fed <-chan error) error {
	select {
	case err := <-fed:
		if err != nil {
			return err
		}
	default:
	}
	return c.session.conn.settle(fmt.Errorf("sshd on %s closed the session without an exit status", c.host.cfg.Name))
}

// started: the host has said that the script runs.
func (c *call) started() bool {
	if c.stdout == nil {
		return false
	}
	_, _, started := c.stdout.framed()
	return started
}
