package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"
)

// DialContext connects to an address as seen from the host, through the SSH connection. network is tcp, tcp4
// or tcp6; address is host:port. The connection has working deadlines and ends with the SSH connection,
// naming its reason. Errors match [ErrForwardingRefused] if sshd forbids forwarding.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
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
			return fmt.Errorf("dial %s through %s: %w", address, h.cfg.Name, forwardError(err))
		}
		go ssh.DiscardRequests(reqs)
		nc = newTunnel(c, ch, tunnelAddr{network, address})
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

// tunnel gives an SSH channel the deadlines of a net.Conn, by way of a pipe that has them.
type tunnel struct {
	net.Conn // our end of the pipe
	conn     *conn
	remote   net.Addr
}

func newTunnel(c *conn, ch ssh.Channel, remote net.Addr) *tunnel {
	ours, theirs := net.Pipe()
	// Either direction's end is the end of both; errors show as the end of the pipe.
	go func() {
		_, _ = io.Copy(theirs, ch)
		ch.Close()
		_ = c.settle(nil) // so that a lost connection is known as such before our end reads the end
		theirs.Close()
	}()
	go func() {
		_, _ = io.Copy(ch, theirs)
		ch.Close()
		theirs.Close()
	}()
	return &tunnel{Conn: ours, conn: c, remote: remote}
}

// Read reports a lost SSH connection as such: a bare end of file would look like the peer's decision.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if err == io.EOF && !t.conn.alive() {
		err = t.conn.lost()
	}
	return n, err
}

// Write is like Read.
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) && !t.conn.alive() {
		err = t.conn.lost()
	}
	return n, err
}

// RemoteAddr is the address that was dialled.
func (t *tunnel) RemoteAddr() net.Addr { return t.remote }

// LocalAddr is a placeholder: the near end has no address of its own.
func (t *tunnel) LocalAddr() net.Addr { return tunnelAddr{t.remote.Network(), "127.0.0.1:0"} }

type tunnelAddr struct{ network, address string }

func (a tunnelAddr) Network() string { return a.network }
func (a tunnelAddr) String() string  { return a.address }
