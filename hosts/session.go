package hosts

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"
)

// session is one channel that runs a program or a subsystem. It stands in for ssh.Session, whose Wait does
// not return before the channel closes: a background child that keeps stdout open would hold it for ever.
type session struct {
	ssh.Channel
	conn    *conn
	exited  chan exit      // one value, then closed; closed without one if the channel ended first
	release func()         // called when the server has closed the channel
	signals sync.WaitGroup // on their way; behind the end of the channel they would not be heard
}

// exit is how a remote program ended.
type exit struct {
	code   int
	signal string
}

// openSession takes a slot and opens a session channel.
func (c *conn) openSession(ctx context.Context) (*session, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.dead:
		return nil, fmt.Errorf("%w: %w", errNotSent, c.lost())
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for one of %d sessions on %s: %w", sessionsPerConn, c.host, context.Cause(ctx))
	}
	s, err := c.newSession(ctx, func() { <-c.slots })
	if err != nil {
		<-c.slots
	}
	return s, err
}

// spareSession opens a session beyond the slots, for ending what runs in the others.
func (c *conn) spareSession(ctx context.Context) (*session, error) {
	return c.newSession(ctx, func() {})
}

// newSession opens a session channel; release is called when the server has closed it, which sshd does not
// before the process has ended.
func (c *conn) newSession(ctx context.Context, release func()) (*session, error) {
	// sshd answers "open failed" (connect failed) when MaxSessions is reached.
	tooMany := func(r ssh.RejectionReason) bool { return r == ssh.ResourceShortage || r == ssh.ConnectionFailed }
	ch, reqs, err := c.openChannel(ctx, "session", nil, tooMany)
	if err != nil {
		return nil, err
	}
	return c.attach(ch, reqs, release), nil
}

// attach makes a session of a channel.
func (c *conn) attach(ch ssh.Channel, reqs <-chan *ssh.Request, release func()) *session {
	s := &session{Channel: ch, conn: c, exited: make(chan exit, 1), release: release}
	go s.requests(reqs)
	return s
}

// requests waits for the exit status and refuses everything else.
func (s *session) requests(reqs <-chan *ssh.Request) {
	defer s.release()
	defer close(s.exited)
	told := false
	for r := range reqs {
		e, ok := parseExit(r)
		if ok && !told {
			told = true
			s.exited <- e
		}
		if r.WantReply {
			_ = r.Reply(ok, nil) // fails only on a dead connection, which others report
		}
	}
}

func parseExit(r *ssh.Request) (exit, bool) {
	switch r.Type {
	case "exit-status":
		if len(r.Payload) < 4 {
			return exit{}, false
		}
		return exit{code: int(int32(binary.BigEndian.Uint32(r.Payload)))}, true
	case "exit-signal":
		var m struct {
			Signal     string
			CoreDumped bool
			Message    string
			Lang       string
		}
		if ssh.Unmarshal(r.Payload, &m) != nil {
			return exit{}, false
		}
		return exit{code: -1, signal: m.Signal}, true
	}
	return exit{}, false
}

// Close ends the session without waiting for a line that takes no more bytes.
func (s *session) Close() error {
	go func() {
		s.signals.Wait()
		s.Channel.Close()
	}()
	return nil
}

// signal asks sshd to signal the processes of the session, as far as they are the login user's.
func (s *session) signal(name string) {
	s.signals.Go(func() { _, _ = s.SendRequest("signal", false, text(name)) })
}

// ask sends a channel request and waits for the answer.
func (s *session) ask(ctx context.Context, kind string, payload []byte) error {
	answer := make(chan error, 1)
	go func() {
		ok, err := s.SendRequest(kind, true, payload)
		switch {
		case err != nil:
			err = s.conn.settle(fmt.Errorf("sshd on %s closed the session: %w", s.conn.host, err))
		case !ok:
			err = fmt.Errorf("sshd on %s refuses %s requests", s.conn.host, kind)
		}
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.conn.dead:
		return s.conn.lost()
	}
}

// text is a payload of one SSH string.
func text(s string) []byte { return ssh.Marshal(struct{ S string }{s}) }
