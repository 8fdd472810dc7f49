package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// relayConns is how many SSH connections carry relays. A relay holds a session for as long as it lives; on the
	// connection that commands use, eight of them would leave no room for any.
	relayConns = 4

	relayLimit = 30 * time.Second // for finding a program and connecting
	relayWords = 64 << 10         // of standard error
)

// Relay connects to an address as seen from the host, as [Host.DialContext] does, but without forwarding by sshd: a
// program of the host that runs as the login user joins the connection to a session. socat, bash, python3, ncat or
// nc will do; nothing is installed. (nc and ncat do not tell that the peer has hung up before something is written.)
// Relays run over SSH connections of their own, up to 32 at once; more wait their turn.
func (h *Host) Relay(ctx context.Context, network, address string) (net.Conn, error) {
	args, err := relayArgs(network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, relayLimit, &limitError{relayLimit})
	defer cancel()
	fail := func(err error) error {
		return fmt.Errorf("dial %s through a program on %s: %w", address, h.name, err)
	}
	s, err := h.relaySession(ctx)
	if err != nil {
		return nil, fail(err)
	}
	r, err := h.startRelay(ctx, s, request{label: "relay", text: relayText, args: args})
	if err != nil {
		s.Close()
		return nil, fail(err)
	}
	return newTunnel(r, tunnelAddr{network, address}), nil
}

// relay is a program on the host that joins its standard streams to a connection there.
type relay struct {
	*session
	host *Host
	req  request

	frame     *output       // standard output up to the program's own bytes
	stdout    io.Reader     // what follows; set when framed is closed
	framed    chan struct{} // closed at its first byte, or at the end
	stderr    *output
	connected chan struct{} // closed when the program says so
	said      chan struct{} // closed at the end of standard error

	kill   func()        // ends the program by force
	gone   chan struct{} // closed when the program has ended
	status exit          // read after gone
	known  bool          // there was a status

	saidSo, over sync.Once
}

// startRelay runs the program until it says that it is connected.
func (h *Host) startRelay(ctx context.Context, s *session, req request) (*relay, error) {
	nonce := rand.Text()
	stir := make(chan struct{}, 1)
	r := &relay{
		session: s, host: h, req: req, frame: &output{nonce: nonce, stir: stir}, stderr: &output{nonce: nonce, stir: stir},
		framed: make(chan struct{}), connected: make(chan struct{}), said: make(chan struct{}), gone: make(chan struct{}),
	}
	beyond := context.WithoutCancel(ctx) // a relay lives longer than the call that made it
	r.kill = func() { h.end(beyond, s, r.frame, false) }
	if err := s.ask(ctx, "exec", text(loader)); err != nil {
		return nil, err
	}
	go func() { _, _ = io.WriteString(s, h.lines(req, nonce)) }() // a failure shows as the session's end
	go r.hear()
	go r.skipFrame()
	go func() {
		r.status, r.known = <-s.exited
		close(r.gone)
	}()
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// await waits until the program is connected.
func (r *relay) await(ctx context.Context) error {
	select {
	case <-r.connected:
		return nil
	case <-r.gone:
	case <-ctx.Done():
		r.host.end(ctx, r.session, r.frame, false)
		return context.Cause(ctx)
	case <-r.session.conn.dead:
		return r.session.conn.lost()
	}
	// A peer that hung up at once was connected all the same, and what was said may still be on its way.
	r.hushed()
	select {
	case <-r.connected:
		return nil
	default:
	}
	if err := r.reason(); err != nil {
		return err
	}
	return errors.New("the program ended without a connection")
}

// skipFrame reads standard output up to the first of the program's own bytes. They come from the peer, so then it is
// connected: that it says so on standard error may be stuck behind them.
func (r *relay) skipFrame() {
	defer close(r.framed)
	buf := make([]byte, 4096)
	for {
		n, err := r.session.Read(buf)
		_, _ = r.frame.Write(buf[:n]) // never fails
		_, body, started := r.frame.framed()
		flows := started && len(body) > 0
		if flows {
			r.saidSo.Do(func() { close(r.connected) })
		}
		if flows || err != nil {
			r.stdout = io.MultiReader(bytes.NewReader(body), r.session)
			return
		}
	}
}

// hear reads standard error: whether the program is connected, and what it complains of, at first.
func (r *relay) hear() {
	defer close(r.said)
	buf := make([]byte, 4096)
	for room := relayWords; ; {
		n, err := r.Stderr().Read(buf)
		if room > 0 {
			_, _ = r.stderr.Write(buf[:n]) // never fails
			room -= n
		}
		if _, body, started := r.stderr.framed(); started && room > 0 && saysConnected.Match(body) {
			r.saidSo.Do(func() { close(r.connected) })
		}
		if err != nil {
			return
		}
	}
}

// hushed waits for the end of what the program says, on both streams, after its own end.
func (r *relay) hushed() {
	t := time.NewTimer(settleLimit)
	defer t.Stop()
	for _, end := range []<-chan struct{}{r.said, r.framed} {
		select {
		case <-end:
		case <-t.C:
			return
		}
	}
}

// reason is why the bytes from the peer ended: nil if the peer has hung up.
func (r *relay) reason() error {
	t := time.NewTimer(settleLimit)
	defer t.Stop()
	select {
	case <-r.gone:
	case <-r.session.conn.dead:
		return r.session.conn.lost()
	case <-t.C:
		return nil // a program that has closed its output but lingers
	}
	if !r.known {
		return r.session.conn.settle(fmt.Errorf("sshd on %s closed the session without an exit status", r.host.name))
	}
	if r.status == (exit{}) {
		return nil
	}
	r.hushed()
	_, err := r.host.result(r.req, r.status, r.frame, r.stderr)
	var failed *ExitError
	switch {
	case exitCode(err) == codeNoRelay:
		return errNoRelay
	case errors.As(err, &failed):
		failed.Stderr = relayNotes.ReplaceAllString(failed.Stderr, "")
	}
	return err
}

// Read reads what comes from the peer.
func (r *relay) Read(p []byte) (int, error) {
	<-r.framed
	return r.stdout.Read(p)
}

// finish ends the program by the end of its input, and if that does not help by force.
func (r *relay) finish() {
	_ = r.CloseWrite() // fails only on a dead channel
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-r.gone:
	case <-r.session.conn.dead:
	case <-t.C:
	}
	r.Close()
}

// Close ends the program.
func (r *relay) Close() error {
	r.over.Do(func() {
		select {
		case <-r.gone:
		default:
			r.kill()
		}
		r.session.Close()
	})
	return nil
}
