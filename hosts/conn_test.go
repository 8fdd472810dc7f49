package hosts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// wantError fails unless err matches kind and says every one of words.
func wantError(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %v, want %v", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func ecdsaSigner(t *testing.T) ssh.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHostKeyUnknown(t *testing.T) {
	s := startServer(t, nil)
	other := startServer(t, nil)
	offered := ssh.FingerprintSHA256(s.key.PublicKey())
	for _, file := range []string{filepath.Join(s.dir, "absent"), other.files["known_hosts"]} {
		h := s.host(t, func(c *Config) { c.KnownHostsFiles = []string{file} })
		wantError(t, h.Connect(t.Context()), ErrHostKeyUnknown, "cp1", s.addr.String(), file, offered, "echo '[", "ssh-keygen -lf")
	}
}

func TestHostKeyChanged(t *testing.T) {
	s := startServer(t, nil)
	old, _ := newSigner(t)
	s.put(t, "known_hosts", "# comment\n"+knownhosts.Line([]string{s.addr.String()}, old.PublicKey())+"\n")
	err := s.host(t, nil).Connect(t.Context())
	wantError(t, err, ErrHostKeyChanged, s.files["known_hosts"]+":2", ssh.FingerprintSHA256(s.key.PublicKey()), ssh.FingerprintSHA256(old.PublicKey()), "ssh-keygen -f")
	if errors.Is(err, ErrHostKeyUnknown) {
		t.Error("changed is not unknown")
	}
	if got := s.dials.Load(); got != 1 {
		t.Errorf("%d attempts, want 1", got)
	}
}

func TestHostKeyRevoked(t *testing.T) {
	s := startServer(t, nil)
	line := knownhosts.Line([]string{s.addr.String()}, s.key.PublicKey())
	s.put(t, "known_hosts", line+"\n@revoked "+line+"\n")
	wantError(t, s.host(t, nil).Connect(t.Context()), ErrHostKeyChanged, s.files["known_hosts"]+":2 revokes")
}

func TestHostKeyOtherType(t *testing.T) {
	s := startServer(t, nil)
	s.put(t, "known_hosts", knownhosts.Line([]string{s.addr.String()}, ecdsaSigner(t).PublicKey())+"\n")
	wantError(t, s.host(t, nil).Connect(t.Context()), ErrHostKeyChanged, "ecdsa-sha2-nistp256", "no such key")
}

// A server with more types of key than are recorded must offer a recorded one, whatever it likes best.
func TestHostKeyTypeIsChosen(t *testing.T) {
	var second ssh.Signer
	s := startServer(t, func(s *server) {
		second = ecdsaSigner(t)
		s.HostSigners = append(s.HostSigners, second)
	})
	for name, line := range map[string]string{
		"first":  knownhosts.Line([]string{s.addr.String()}, s.key.PublicKey()),
		"second": knownhosts.Line([]string{s.addr.String()}, second.PublicKey()),
		"hashed": xknownhosts.HashHostname(knownhosts.Normalize(s.addr.String())) + " " + string(ssh.MarshalAuthorizedKey(second.PublicKey())),
	} {
		s.put(t, "known_hosts", line+"\n")
		if err := s.host(t, nil).Connect(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuth(t *testing.T) {
	s := startServer(t, nil)
	stranger, priv := newSigner(t)
	plain, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(priv, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, "stranger", string(pem.EncodeToMemory(plain)))
	s.put(t, "locked", string(pem.EncodeToMemory(locked)))
	s.put(t, "garbage", "no key")
	t.Setenv("SSH_AUTH_SOCK", "")
	for name, words := range map[string][]string{
		s.files["stranger"]:            {"authentication: user ops is refused with key file"},
		s.files["locked"]:              {"refused with key file", "ssh-ed25519 SHA256:"},
		s.files["garbage"]:             {"garbage"},
		filepath.Join(s.dir, "absent"): {"absent"},
		"":                             {"SSH_AUTH_SOCK"},
	} {
		wantError(t, s.host(t, func(c *Config) { c.KeyFiles = some(name) }).Connect(t.Context()), ErrAuth, words...)
	}
	s.user = stranger
	if err := s.host(t, func(c *Config) { c.KeyFiles = []string{s.files["stranger"]} }).Connect(t.Context()); err != nil {
		t.Error(err)
	}
	s.user = serveAgent(t)
	if err := s.host(t, func(c *Config) { c.KeyFiles = nil }).Connect(t.Context()); err != nil {
		t.Errorf("agent: %v", err)
	}
}

// serveAgent puts an agent with a new key at SSH_AUTH_SOCK.
func serveAgent(t *testing.T) ssh.Signer {
	t.Helper()
	signer, priv := newSigner(t)
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: priv}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); os.RemoveAll(dir) })
	t.Setenv("SSH_AUTH_SOCK", l.Addr().String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keys, c); c.Close() }()
		}
	}()
	return signer
}

// listen serves every connection by handle, which must return when the connection is closed.
func listen(t *testing.T, handle func(net.Conn)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); handle(c) }()
		}
	}()
	return l.Addr().(*net.TCPAddr)
}

// A server that stalls at a phase is given up at the limit, or when the context ends, and the error says where.
func TestStalledHandshake(t *testing.T) {
	s := startServer(t, nil)
	drain := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	stuck := make(chan struct{})
	defer close(stuck)
	slow := startServer(t, func(s *server) {
		s.PublicKeyHandler = func(gliderssh.Context, gliderssh.PublicKey) bool { <-stuck; return false }
	})
	for phase, addr := range map[string]*net.TCPAddr{
		"ssh banner":     listen(t, drain),
		"host key":       listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-stuck\r\n"); drain(c) }),
		"authentication": slow.addr,
	} {
		t.Run(phase, func(t *testing.T) {
			change := func(c *Config) {
				c.Port, c.ConnectTimeout, c.KnownHostsFiles = addr.Port, 200*time.Millisecond, []string{slow.files["known_hosts"]}
			}
			err := s.host(t, change).Connect(t.Context())
			wantError(t, err, ErrUnreachable, phase, "no end after 200ms")
			wantError(t, err, context.DeadlineExceeded)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("stop")
			time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
			err = s.host(t, func(c *Config) { change(c); c.ConnectTimeout = time.Minute }).Connect(ctx)
			wantError(t, err, why, phase)
		})
	}
}

func TestUnreachable(t *testing.T) {
	s := startServer(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	h := s.host(t, func(c *Config) { c.Port = l.Addr().(*net.TCPAddr).Port })
	wantError(t, h.Connect(t.Context()), ErrUnreachable, "cp1", "tcp connect", "refused")
	_, _, err = h.RunUnit(t.Context(), Unit{Name: "u", Argv: []string{"true"}}, nil)
	wantError(t, err, ErrUnreachable)
}

// sshd drops connections at random when many arrive; that is before anybody was authenticated.
func TestDroppedBeforeAuthIsRetried(t *testing.T) {
	s := startServer(t, nil)
	dropper := listen(t, func(net.Conn) {}).String()
	var drops atomic.Int64
	h := s.host(t, func(c *Config) {
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if drops.Add(1) <= 2 {
				addr = dropper
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	if err := h.Connect(t.Context()); err != nil || drops.Load() != 3 {
		t.Errorf("after %d dials: %v", drops.Load(), err)
	}
}

// frozen is a connection whose line goes dead without a word: writes vanish, or block once the buffers are
// full; reads get nothing.
type frozen struct {
	net.Conn
	dead, full atomic.Bool
	closed     chan struct{}
	once       sync.Once
}

func (f *frozen) Write(p []byte) (int, error) {
	if f.full.Load() {
		<-f.closed
		return 0, net.ErrClosed
	}
	if f.dead.Load() {
		return len(p), nil
	}
	return f.Conn.Write(p)
}

func (f *frozen) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}

// A call returns at its limit even if the line takes no more bytes.
func TestBlockedLine(t *testing.T) {
	s := startServer(t, nil)
	var line *frozen
	h := s.host(t, func(c *Config) {
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			line = &frozen{Conn: nc, closed: make(chan struct{})}
			return line, err
		}
	})
	if err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	line.full.Store(true)
	begun := time.Now()
	_, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Timeout: 50 * time.Millisecond})
	wantError(t, err, context.DeadlineExceeded)
	if took := time.Since(begun); took > endLimit+time.Second {
		t.Errorf("took %v", took)
	}
}

func TestKeepalive(t *testing.T) {
	s := startServer(t, nil)
	var line *frozen
	h := s.host(t, func(c *Config) {
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			line = &frozen{Conn: nc, closed: make(chan struct{})}
			return line, err
		}
	})
	h.tune.keepaliveEvery, h.tune.keepaliveLimit = 20*time.Millisecond, 100*time.Millisecond
	if err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	stuck := line
	marker := filepath.Join(s.dir, "running")
	done := make(chan error)
	go func() {
		_, err := h.Run(t.Context(), Cmd{Argv: []string{"sh", "-c", `>"$0"; sleep 300`, marker}})
		done <- err
	}()
	waitFor(t, "the command", func() bool { _, err := os.Stat(marker); return err == nil })
	stuck.dead.Store(true)
	wantError(t, <-done, ErrConnLost, "no answer to a keepalive for 100ms", "cp1")
	if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
		t.Errorf("reconnect: %v", err)
	}
}

func TestReconnect(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	for range 5 {
		if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
		s.cut()
	}
}

// A host that is being connected to can be named.
func TestNameWhileConnecting(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	var all sync.WaitGroup
	all.Go(func() { _ = h.Connect(t.Context()) })
	for range 100 {
		if h.Name() != "cp1" || h.Address() != "127.0.0.1" {
			t.Errorf("got %s at %s", h.Name(), h.Address())
		}
	}
	all.Wait()
}

// An sshd that lets us in and hangs up is tried once more, not for ever.
func TestHangsUpAfterAuthentication(t *testing.T) {
	s := startServer(t, hangsUp)
	_, err := s.host(t, nil).Run(t.Context(), Cmd{Argv: []string{"true"}})
	wantError(t, err, ErrConnLost)
	if got := s.dials.Load(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

// hangsUp makes a server that ends the connection instead of opening a session.
func hangsUp(s *server) {
	s.ChannelHandlers["session"] = func(_ *gliderssh.Server, c *ssh.ServerConn, _ ssh.NewChannel, _ gliderssh.Context) { c.Close() }
}

func TestClose(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	marker := filepath.Join(s.dir, "running")
	done := make(chan error)
	go func() {
		_, err := h.Run(t.Context(), Cmd{Argv: []string{"sh", "-c", `>"$0"; sleep 300`, marker}})
		done <- err
	}()
	waitFor(t, "the command", func() bool { _, err := os.Stat(marker); return err == nil })
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, <-done, net.ErrClosed)
	wantError(t, h.Connect(t.Context()), net.ErrClosed)
	if got := s.dials.Load(); got != 1 {
		t.Errorf("%d connections", got)
	}
}

// The server is alive but never answers the request for a channel.
func TestChannelNeverOpens(t *testing.T) {
	release := make(chan struct{})
	s := startServer(t, func(s *server) {
		s.ChannelHandlers = map[string]gliderssh.ChannelHandler{
			"session": func(_ *gliderssh.Server, _ *ssh.ServerConn, ch ssh.NewChannel, _ gliderssh.Context) { <-release },
		}
	})
	defer close(release)
	h := s.host(t, nil)
	_, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Timeout: 100 * time.Millisecond})
	wantError(t, err, context.DeadlineExceeded, "open session channel on cp1")
	h = s.host(t, nil)
	h.tune.channelLimit = 100 * time.Millisecond
	_, err = h.Run(t.Context(), Cmd{Argv: []string{"true"}})
	wantError(t, err, ErrConnLost, "no answer to a channel request")
}

func some(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
