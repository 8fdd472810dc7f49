package hosts

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// hop is the configuration of a server as a jump host.
func (s *server) hop(name string) Config {
	c := s.config()
	c.Name = name
	return c
}

func TestJump(t *testing.T) {
	outer, inner, s := startServer(t, nil), startServer(t, nil), startServer(t, nil)
	n := NewNetwork(nil)
	defer n.Close()
	var all sync.WaitGroup
	for range 6 {
		c := s.config()
		c.Jump = []Config{outer.hop("outer"), inner.hop("inner")}
		h := n.Host(c)
		t.Cleanup(func() { h.Close() })
		all.Go(func() {
			out, err := h.Run(t.Context(), Cmd{Argv: []string{"echo", "hello"}})
			if err != nil || string(out) != "hello\n" {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
	all.Wait()
	if outer.dials.Load() != 1 || inner.dials.Load() != 1 || s.dials.Load() != 6 {
		t.Errorf("%d, %d and %d connections, want 1, 1 and 6", outer.dials.Load(), inner.dials.Load(), s.dials.Load())
	}
}

// Every hop is verified, and the error says which one it is about.
func TestJumpIsVerified(t *testing.T) {
	outer, inner, s := startServer(t, nil), startServer(t, nil), startServer(t, nil)
	connect := func(change func(hops []Config)) error {
		hops := []Config{outer.hop("outer"), inner.hop("inner")}
		change(hops)
		return s.host(t, func(c *Config) { c.Jump = hops }).Connect(t.Context())
	}
	stranger, _ := newSigner(t)
	for i, hop := range []*server{outer, inner} {
		name := []string{"outer", "inner"}[i]
		wrong := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(wrong, []byte(knownhosts.Line([]string{hop.addr.String()}, stranger.PublicKey())+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := connect(func(hops []Config) { hops[i].KnownHostsFiles = []string{wrong} })
		wantError(t, err, ErrHostKeyChanged, "cp1", "jump host", "connect to "+name, wrong+":1")
		err = connect(func(hops []Config) { hops[i].KnownHostsFiles = []string{os.DevNull} })
		wantError(t, err, ErrHostKeyUnknown, "connect to "+name)
		err = connect(func(hops []Config) { hops[i].KeyFiles = []string{filepath.Join(s.dir, "absent")} })
		wantError(t, err, ErrAuth, "connect to "+name)
	}
	if got := s.dials.Load(); got != 0 {
		t.Errorf("%d connections reached the host", got)
	}
}

// One bastion for hosts that trust it in different ways: each goes by its own rule, whoever comes first.
func TestJumpOfDifferentTrust(t *testing.T) {
	bastion, s := startServer(t, nil), startServer(t, nil)
	n := NewNetwork(nil)
	defer n.Close()
	file := filepath.Join(s.dir, "known_by_both")
	data, _ := os.ReadFile(s.files["known_hosts"])
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	connect := func(accept bool) error {
		c := s.config()
		hop := bastion.hop("bastion")
		hop.AcceptNew, hop.KnownHostsFiles = accept, []string{file}
		c.Jump = []Config{hop}
		h := n.Host(c)
		t.Cleanup(func() { h.Close() })
		return h.Connect(t.Context())
	}
	wantError(t, connect(false), ErrHostKeyUnknown)
	if err := connect(true); err != nil {
		t.Error(err)
	}
}

func TestJumpThatForbidsForwarding(t *testing.T) {
	bastion, s := startServer(t, nil), startServer(t, nil)
	bastion.forward.Store(false)
	err := s.host(t, func(c *Config) { c.Jump = []Config{bastion.hop("bastion")} }).Connect(t.Context())
	wantError(t, err, ErrForwardingRefused, "connect to cp1", "through bastion")
	wantError(t, err, ErrUnreachable)
}

// After a bastion was lost the next call goes through a new connection to it.
func TestJumpIsLost(t *testing.T) {
	bastion, s := startServer(t, nil), startServer(t, nil)
	h := s.host(t, func(c *Config) { c.Jump = []Config{bastion.hop("bastion")} })
	for range 3 {
		if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
		bastion.cut()
		waitFor(t, "the loss", func() bool { c, _ := h.current(); return c == nil })
	}
	if got := bastion.dials.Load(); got != 3 {
		t.Errorf("%d connections to the bastion, want 3", got)
	}
}

// A host behind the bastion that does not answer costs its own limit, and the others nothing.
func TestDeadHostBehindJump(t *testing.T) {
	silent := make(chan struct{})
	defer close(silent)
	bastion := startServer(t, func(s *server) {
		s.ChannelHandlers["direct-tcpip"] = func(srv *gliderssh.Server, conn *ssh.ServerConn, ch ssh.NewChannel, ctx gliderssh.Context) {
			if strings.Contains(string(ch.ExtraData()), "192.0.2.1") {
				<-silent
				return
			}
			gliderssh.DirectTCPIPHandler(srv, conn, ch, ctx)
		}
	})
	s := startServer(t, nil)
	n := NewNetwork(nil)
	defer n.Close()
	c := s.config()
	c.Jump = []Config{bastion.hop("bastion")}
	h := n.Host(c)
	defer h.Close()
	if err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Address, c.ConnectTimeout = "192.0.2.1", 100*time.Millisecond
	dead := n.Host(c)
	wantError(t, dead.Connect(t.Context()), ErrUnreachable, "tcp connect", "no end after 100ms")
	hop := n.hop(c.Jump, nil)
	hop.conn.tune.channelLimit = 50 * time.Millisecond
	_, err := hop.DialContext(t.Context(), "tcp", "192.0.2.1:22")
	wantError(t, err, context.DeadlineExceeded, "no end after 50ms")
	if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
		t.Error(err)
	}
	if got := bastion.dials.Load(); got != 1 {
		t.Errorf("%d connections to the bastion, want 1", got)
	}
}

// Jump hosts that need each other, or a wildcard that sends the bastion through itself, end with an error, not with
// a wait.
func TestJumpInACircle(t *testing.T) {
	for _, text := range []string{"Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n", "Host *\n  ProxyJump a\n"} {
		both(t, text, func(t *testing.T, file string) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			h := New(Config{Name: "cp1", Address: "a", User: "ops", SSHConfig: file})
			defer h.Close()
			err := h.Connect(ctx)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "circle") && !strings.Contains(err.Error(), "loop") {
				t.Errorf("got %v, want a word on the circle", err)
			}
		})
	}
}

func TestJumpFromSSHConfig(t *testing.T) {
	bastion, s := startServer(t, nil), startServer(t, nil)
	file, _ := sshConfig(t, `
Host target
  HostName 127.0.0.1
  Port `+port(s)+`
  UserKnownHostsFile `+s.files["known_hosts"]+`
  IdentityFile `+s.files["key"]+`
  ProxyJump hop
Host hop
  HostName 127.0.0.1
  Port `+port(bastion)+`
  UserKnownHostsFile `+bastion.files["known_hosts"]+`
  IdentityFile `+bastion.files["key"]+`
`)
	h := New(Config{Name: "cp1", Address: "target", SSHConfig: file})
	defer h.Close()
	if err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bastion.dials.Load() != 1 || s.dials.Load() != 1 {
		t.Errorf("%d and %d connections, want one each", bastion.dials.Load(), s.dials.Load())
	}
}

func port(s *server) string { _, p, _ := net.SplitHostPort(s.addr.String()); return p }

// Few connections are made at once, however many hosts there are.
func TestDialsAreLimited(t *testing.T) {
	s := startServer(t, nil)
	n := NewNetwork(nil)
	n.dials = make(chan struct{}, 2)
	var mu sync.Mutex
	now, most := 0, 0
	var all sync.WaitGroup
	for range 10 {
		c := s.config()
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
			mu.Lock()
			defer mu.Unlock()
			now++
			most = max(most, now)
			return nc, err
		}
		h := n.Host(c)
		t.Cleanup(func() { h.Close() })
		all.Go(func() {
			if err := h.Connect(t.Context()); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			now--
		})
	}
	all.Wait()
	if most > 4 { // two being made, and two just made that have not said so yet
		t.Errorf("%d at once", most)
	}
}

// A stream that a bastion cuts in the middle is a lost connection, whatever was on its way.
func TestJumpCutsAStream(t *testing.T) {
	bastion, s := startServer(t, nil), startServer(t, nil)
	h := s.host(t, func(c *Config) { c.Jump = []Config{bastion.hop("bastion")} })
	done := make(chan error, 1)
	reading, writing := io.Pipe()
	go func() {
		_, err := h.Run(t.Context(), Cmd{Argv: []string{"cat"}, Stdin: reading})
		done <- err
	}()
	if _, err := writing.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	bastion.cut()
	err := <-done
	wantError(t, err, ErrConnLost, "cp1")
	if errors.Is(err, ErrHostKeyUnknown) {
		t.Error(err)
	}
	writing.Close()
}
