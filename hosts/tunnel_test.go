package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"
)

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

func TestDialContext(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	addr := listen(t, echo).String()
	c, err := h.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	go func() { _, _ = c.Write(data) }()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("what came back differs: %v", err)
	}
	if c.RemoteAddr().String() != addr || c.RemoteAddr().Network() != "tcp" {
		t.Errorf("remote address %v", c.RemoteAddr())
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read past the deadline: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(got); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("read after close: %v", err)
	}
}

func TestTunnelEndsWithItsPeer(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	c, err := h.DialContext(t.Context(), "tcp", listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "bye") }).String())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Errorf("got %q, %v", got, err)
	}
	c, err = h.DialContext(t.Context(), "tcp", listen(t, echo).String())
	if err != nil {
		t.Fatal(err)
	}
	s.cut()
	_, err = c.Read(make([]byte, 1))
	wantError(t, err, ErrConnLost)
	c.Close()
}

func TestDialContextFails(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err = h.DialContext(t.Context(), "tcp", l.Addr().String()); err == nil || errors.Is(err, ErrForwardingRefused) || errors.Is(err, ErrConnLost) {
		t.Errorf("closed port: got %v", err)
	}
	if _, err = h.DialContext(t.Context(), "udp", "127.0.0.1:53"); err == nil {
		t.Error("udp accepted")
	}
	if _, err = h.DialContext(t.Context(), "tcp", "127.0.0.1:port"); err == nil {
		t.Error("port name accepted")
	}
}

// sshd refuses in more than one way, by its configuration: the answer says where to look, and commands go on.
func TestForwardingRefused(t *testing.T) {
	for name, setup := range map[string]func(*server){
		"prohibited":   func(s *server) { s.forward.Store(false) },
		"unknown type": func(s *server) { delete(s.ChannelHandlers, "direct-tcpip") },
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, setup)
			h := s.host(t, nil)
			_, err := h.DialContext(t.Context(), "tcp", s.addr.String())
			wantError(t, err, ErrForwardingRefused, "cp1", s.addr.String(), "AllowTcpForwarding", "PermitOpen", "DisableForwarding")
			if errors.Is(err, ErrConnLost) || s.dials.Load() != 1 {
				t.Errorf("after %d connections: %v", s.dials.Load(), err)
			}
			if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// stuckEnd neither takes nor gives anything before it is closed.
type stuckEnd struct {
	closed chan struct{}
	once   sync.Once
}

func (e *stuckEnd) Read([]byte) (int, error)  { <-e.closed; return 0, io.EOF }
func (e *stuckEnd) Write([]byte) (int, error) { <-e.closed; return 0, io.EOF }
func (e *stuckEnd) Close() error              { e.once.Do(func() { close(e.closed) }); return nil }
func (e *stuckEnd) finish()                   { e.Close() }
func (e *stuckEnd) reason() error             { return nil }

// A peer that reads nothing does not keep a closed tunnel alive.
func TestTunnelCloseWithAStuckPeer(t *testing.T) {
	far := &stuckEnd{closed: make(chan struct{})}
	c := newTunnel(far, tunnelAddr{"tcp", "127.0.0.1:1"})
	if err := c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write past the deadline: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	waitFor(t, "the far end to be closed", func() bool {
		select {
		case <-far.closed:
			return true
		default:
			return false
		}
	})
	if _, err := c.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write after close: %v", err)
	}
}

func TestDialContextCancelled(t *testing.T) {
	release := make(chan struct{})
	s := startServer(t, func(s *server) {
		s.ChannelHandlers["direct-tcpip"] = func(_ *gliderssh.Server, _ *ssh.ServerConn, ch ssh.NewChannel, _ gliderssh.Context) {
			<-release
			_ = ch.Reject(ssh.ConnectionFailed, "too late")
		}
	})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.host(t, nil).DialContext(ctx, "tcp", "127.0.0.1:1")
	wantError(t, err, context.DeadlineExceeded)
}
