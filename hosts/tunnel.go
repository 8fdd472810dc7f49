package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// DialContext connects to an address as seen from the host, through the SSH connection. network is tcp, tcp4
// or tcp6; address is host:port. The connection has working deadlines and ends with the SSH connection,
// naming its reason. Errors match [ErrForwardingRefused] if sshd forbids forwarding.
//
// With [Config.Relay] it is [Host.Relay].
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if _, err := h.connection(ctx); err != nil { // which completes the configuration
		return nil, err
	}
	if h.cfg.Relay {
		return h.Relay(ctx, network, address)
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, fmt.Errorf("network %q: only tcp goes through SSH", network)
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", address, err)
	}
	// RFC 4254, 7.2. The originator is for the server's log only.
	payload := ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{host, uint32(port), "127.0.0.1", 0})
	var nc net.Conn
	err = h.onConn(ctx, func(c *conn) error {
		tooMany := func(r ssh.RejectionReason) bool { return r == ssh.ResourceShortage }
		ch, reqs, err := c.openChannel(ctx, "direct-tcpip", payload, tooMany)
		if err != nil {
			return fmt.Errorf("dial %s through %s: %w", address, h.name, forwardError(err))
		}
		go ssh.DiscardRequests(reqs)
		nc = newTunnel(forwarded{ch, c}, tunnelAddr{network, address})
		return nil
	})
	return nc, err
}

func forwardError(err error) error {
	var refused *ssh.OpenChannelError
	if errors.As(err, &refused) && (refused.Reason == ssh.Prohibited || refused.Reason == ssh.UnknownChannelType) {
		return fmt.Errorf("%w (AllowTcpForwarding, PermitOpen or DisableForwarding in its configuration): %w", ErrForwardingRefused, err)
	}
	return err
}

// farEnd is what a tunnel leads to.
type farEnd interface {
	io.ReadWriteCloser // Close ends both directions at once
	finish()           // after the last Write: ends both directions once what was written is out
	reason() error     // why reading came to its end; nil if the peer wanted it
}

// forwarded is a connection that sshd has made.
type forwarded struct {
	ssh.Channel
	conn *conn
}

func (f forwarded) finish() { f.Close() }

// reason makes sure that a lost connection is known as such before our end reads the end.
func (f forwarded) reason() error { return f.conn.settle(nil) }

// tunnel gives a far end the deadlines of a net.Conn, by way of a pipe that has them.
type tunnel struct {
	net.Conn // our end of the pipe
	remote   net.Addr
	far      farEnd
	why      atomic.Pointer[error] // of an end that nobody wanted
	closed   atomic.Bool           // by us
}

func newTunnel(far farEnd, remote net.Addr) *tunnel {
	ours, theirs := net.Pipe()
	t := &tunnel{Conn: ours, far: far, remote: remote}
	// Either direction's end is the end of both; errors show as the end of the pipe.
	go func() {
		if _, _ = io.Copy(theirs, far); t.closed.Load() {
			_, _ = io.Copy(io.Discard, far) // until what we wrote is out
		}
		if err := far.reason(); err != nil && !t.closed.Load() {
			t.why.Store(&err)
		}
		theirs.Close()
		far.Close()
	}()
	go func() {
		_, _ = io.Copy(far, theirs)
		theirs.Close()
		far.finish()
	}()
	return t
}

// Read tells an end that the peer did not want as such: a bare end of file would look like the peer's decision.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if why := t.why.Load(); err == io.EOF && why != nil {
		err = *why
	}
	return n, err
}

// Write is like Read.
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	if why := t.why.Load(); errors.Is(err, io.ErrClosedPipe) && why != nil {
		err = *why
	}
	return n, err
}

// Close ends the connection. What was written goes out first, unless the peer does not take it.
func (t *tunnel) Close() error {
	if t.closed.CompareAndSwap(false, true) {
		// A copy to a peer that reads nothing does not see that our end is closed.
		time.AfterFunc(closeGrace, func() { t.far.Close() })
	}
	return t.Conn.Close()
}

// closeGrace is how long what was written may take to go out after the end.
const closeGrace = 2 * time.Second

// RemoteAddr is the address that was dialled.
func (t *tunnel) RemoteAddr() net.Addr { return t.remote }

// LocalAddr is a placeholder: the near end has no address of its own.
func (t *tunnel) LocalAddr() net.Addr { return tunnelAddr{t.remote.Network(), "127.0.0.1:0"} }

type tunnelAddr struct{ network, address string }

func (a tunnelAddr) Network() string { return a.network }
func (a tunnelAddr) String() string  { return a.address }
