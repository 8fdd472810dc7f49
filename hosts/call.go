package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
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
	decided        atomic.Bool     // whether it goes out
}

// run runs the request in a fresh session.
func (c *call) run(ctx context.Context, s *session) ([]byte, error) {
	c.session, c.nonce = s, rand.Text()
	c.stir, c.sent = make(chan struct{}, 1), make(chan time.Time, 1)
	flood := make(chan struct{}, 1)
	c.stdout = &output{nonce: c.nonce, stir: c.stir, flood: flood, begun: make(chan struct{})}
	c.stderr = &output{nonce: c.nonce, stir: c.stir, flood: flood}
	if err := s.ask(ctx, "exec", text(loader)); err != nil {
		return nil, fmt.Errorf("%s: %w", c.req.label, err)
	}
	c.drained = collect(s, c.stdout, c.stderr)
	fed := make(chan error, 1)
	go c.feed(ctx, fed)
	e, err := c.await(ctx, fed, flood)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(quiet(ctx, s.conn, c.drained, c.stir), c.stdout.whole(), c.stderr.whole()); err != nil {
		return nil, fmt.Errorf("%s on %s ended, but its output did not: %w", c.req.label, c.host.name, err)
	}
	if began := c.stdout.firstByte(); c.req.span != nil && !began.IsZero() {
		*c.req.span = span{<-c.sent, began}
	}
	if c.pass != nil && !c.started() {
		return nil, c.host.neverStarted(c.req, e, c.clean(c.stdout.all()), c.clean(c.stderr.all()), true)
	}
	return c.host.result(c.req, e, c.stdout, c.stderr)
}

// await waits for the exit status. If ctx ends first, or a flood comes, it ends the remote process.
func (c *call) await(ctx context.Context, fed <-chan error, flood <-chan struct{}) (exit, error) {
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
		case <-flood:
			c.stop(ctx)
			return exit{}, fmt.Errorf("%s on %s: %w", c.req.label, c.host.name, errTooMuch)
		case <-ctx.Done():
			if !c.last {
				c.stop(ctx)
			}
			return exit{}, fmt.Errorf("%s on %s: %w", c.req.label, c.host.name, context.Cause(ctx))
		}
	}
}

// decide is true for whoever is first: the one who sends the script, or the one who ends the call before it is sent.
func (c *call) decide() bool { return c.decided.CompareAndSwap(false, true) }

// beginLimit is how long a script that is on its way may take to begin when its call is over.
const beginLimit = 2 * time.Second

// stop ends the remote process. A script that is on its way begins all the same, and then knows nothing of the end of
// its session: root's processes hear no signals of sshd. So it is waited for.
func (c *call) stop(ctx context.Context) {
	if !c.decide() {
		t := time.NewTimer(beginLimit)
		defer t.Stop()
		select {
		case <-c.stdout.begun:
		case <-c.drained:
		case <-c.session.conn.dead:
		case <-t.C:
		}
	}
	c.host.end(ctx, c.session, c.stdout, c.req.privileged)
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
	return c.session.conn.settle(fmt.Errorf("sshd on %s closed the session without an exit status", c.host.name))
}

// started: the host has said that the script runs.
func (c *call) started() bool {
	if c.stdout == nil {
		return false
	}
	_, _, started := c.stdout.framed()
	return started
}
