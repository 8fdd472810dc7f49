package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
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
	s.forward.Store(false)
	_, err = h.DialContext(t.Context(), "tcp", l.Addr().String())
	wantError(t, err, ErrForwardingRefused, "cp1", "AllowTcpForwarding")
	if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
		t.Errorf("afterwards: %v", err)
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
