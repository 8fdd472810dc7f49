package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"
)

// relayTools are those programs of this machine that a relay can run on. bash is on all of ours.
func relayTools(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, tool := range []string{"bash", "socat", "python3", "ncat", "nc"} {
		if _, err := exec.LookPath(tool); err == nil {
			found = append(found, tool)
		}
	}
	if len(found) == 0 {
		t.Fatal("none of the programs is on this machine")
	}
	return found
}

// relayHost is a host that has one of the programs, or none.
func relayHost(t *testing.T, tool string, setup func(*server)) (*server, *Host) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "cat", "true", tool} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		// A program may need others, which the search for one that can relay must not find.
		script := "#!/bin/sh\nPATH=" + Quote(os.Getenv("PATH")) + " exec " + Quote(path) + ` "$@"` + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := startServer(t, func(s *server) {
		s.shell = []string{"/bin/sh", "-c", `PATH=` + dir + `:/absent/usr/sbin; eval "$0"`}
		if setup != nil {
			setup(s)
		}
	})
	h := s.host(t, func(c *Config) { c.Relay = true })
	h.tune.searchPath = dir
	return s, h
}

// processes counts what runs with all of these words on its command line.
func processes(words ...string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	n := 0
	for _, file := range files {
		line, err := os.ReadFile(file) // a process may be gone by now
		found := err == nil
		for _, w := range words {
			found = found && bytes.Contains(line, []byte(w))
		}
		if found {
			n++
		}
	}
	return n
}

func TestRelayHTTP(t *testing.T) {
	for _, tool := range relayTools(t) {
		t.Run(tool, func(t *testing.T) {
			_, h := relayHost(t, tool, nil)
			web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
			defer web.Close()
			client := web.Client()
			transport := client.Transport.(*http.Transport)
			transport.DialContext = h.DialContext
			defer transport.CloseIdleConnections()
			post := func(size int) {
				t.Helper()
				data := make([]byte, size)
				_, _ = rand.Read(data)
				resp, err := client.Post(web.URL, "", bytes.NewReader(data))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes came back as %d others: %v", size, len(got), err)
				}
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for n := range 25 {
						post(n)
					}
				})
			}
			all.Wait()
			post(5 << 20)
		})
	}
}

// What was written arrives before the end, in both directions, and nothing is left running.
func TestRelayEnds(t *testing.T) {
	for _, tool := range relayTools(t) {
		t.Run(tool, func(t *testing.T) {
			_, h := relayHost(t, tool, nil)
			data := make([]byte, 3<<20)
			_, _ = rand.Read(data)
			got := make(chan []byte, 1)
			sink := listen(t, func(c net.Conn) { b, _ := io.ReadAll(c); got <- b })
			c, err := h.Relay(t.Context(), "tcp", sink.String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(data); err != nil {
				t.Fatal(err)
			}
			c.Close()
			if !bytes.Equal(<-got, data) {
				t.Error("the peer got something else")
			}
			_, port, _ := net.SplitHostPort(sink.String())
			waitFor(t, "the end of the program", func() bool { return processes("127.0.0.1", port) == 0 })

			source := listen(t, func(c net.Conn) { _, _ = c.Write(data) })
			if c, err = h.Relay(t.Context(), "tcp", source.String()); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			b := make([]byte, len(data))
			if _, err := io.ReadFull(c, b); err != nil || !bytes.Equal(b, data) {
				t.Errorf("what came differs: %v", err)
			}
			if strings.HasPrefix(tool, "n") {
				return // nc and ncat do not say that the peer has hung up
			}
			if n, err := c.Read(b); n != 0 || err != io.EOF {
				t.Errorf("after the end: %d, %v", n, err)
			}
			_, port, _ = net.SplitHostPort(source.String())
			waitFor(t, "the end of the program", func() bool { return processes("127.0.0.1", port) == 0 })
		})
	}
}

// A peer that neither reads nor writes does not keep a closed relay alive.
func TestRelayCloseWithAStuckPeer(t *testing.T) {
	for _, tool := range []string{"bash"} {
		t.Run(tool, func(t *testing.T) {
			_, h := relayHost(t, tool, nil)
			over := make(chan struct{})
			peer := listen(t, func(net.Conn) { <-over })
			defer close(over)
			c, err := h.Relay(t.Context(), "tcp", peer.String())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err = c.Write(make([]byte, 32<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write past the deadline: %v", err)
			}
			c.Close()
			_, port, _ := net.SplitHostPort(peer.String())
			waitFor(t, "the end of the program", func() bool { return processes("127.0.0.1", port) == 0 })
		})
	}
}

func TestRelayRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, tool := range relayTools(t) {
		t.Run(tool, func(t *testing.T) {
			_, h := relayHost(t, tool, nil)
			_, err := h.Relay(t.Context(), "tcp", l.Addr().String())
			var exit *ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("got %v, want the program's words", err)
			}
			wantError(t, err, exit, "cp1", l.Addr().String(), "refused")
			for _, noise := range []string{"exit(1)", "opening connection", "connected"} {
				if strings.Contains(err.Error(), noise) {
					t.Errorf("%v says %q", err, noise)
				}
			}
			_, err = h.Relay(t.Context(), "tcp", "no-such-host.invalid:1")
			if !errors.As(err, &exit) || strings.Contains(err.Error(), "Traceback") {
				t.Errorf("unknown name: %v", err)
			}
		})
	}
}

func TestRelayWithoutPrograms(t *testing.T) {
	_, h := relayHost(t, "", nil)
	_, err := h.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	wantError(t, err, errNoRelay, "socat", "bash", "python3", "nc", "AllowTcpForwarding")
}

func TestRelayBadAddress(t *testing.T) {
	h := New(Config{})
	for _, bad := range []struct{ network, address string }{
		{"udp", "127.0.0.1:53"}, {"tcp", "127.0.0.1"}, {"tcp", "127.0.0.1:http"}, {"tcp", "127.0.0.1:0"}, {"tcp", "127.0.0.1:65536"},
		{"tcp", ":80"}, {"tcp", "-e:80"}, {"tcp", "a b:80"}, {"tcp", "x,exec=sh:80"}, {"tcp", "$(id):80"}, {"tcp", "[fe80::1%a,b]:80"},
		{"tcp4", "[::1]:80"}, {"tcp6", "127.0.0.1:80"},
	} {
		if _, err := h.Relay(t.Context(), bad.network, bad.address); err == nil {
			t.Errorf("%s %q accepted", bad.network, bad.address)
		}
	}
}

func TestRelayIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "six")
			c.Close()
		}
	}()
	for _, tool := range relayTools(t) {
		t.Run(tool, func(t *testing.T) {
			_, h := relayHost(t, tool, nil)
			c, err := h.Relay(t.Context(), "tcp6", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got := make([]byte, 3)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "six" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestRelayCancelled(t *testing.T) {
	s := startServer(t, func(s *server) { s.shell = []string{"/bin/sh", "-c", `echo >"$FAKE/begun"; exec sleep 300.25`} })
	h := s.host(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("stop")
	done := make(chan error)
	go func() { _, err := h.Relay(ctx, "tcp", "127.0.0.1:1"); done <- err }()
	waitFor(t, "the program", func() bool { _, err := os.Stat(filepath.Join(s.fake, "begun")); return err == nil })
	cancel(why)
	wantError(t, <-done, why, "127.0.0.1:1")
	waitFor(t, "the end of the program", func() bool { return processes("sleep", "300.25") == 0 })
}

func TestRelayLoginShellRefuses(t *testing.T) {
	s := startServer(t, func(s *server) { s.shell = []string{"/bin/sh", "-c", "echo This account is not available; exit 1"} })
	_, err := s.host(t, nil).Relay(t.Context(), "tcp", "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "login shell") || !strings.Contains(err.Error(), "not available") {
		t.Errorf("got %v", err)
	}
}

func TestRelayConnectionLost(t *testing.T) {
	s, h := relayHost(t, "bash", nil)
	peer := listen(t, echo)
	c, err := h.DialContext(t.Context(), "tcp", peer.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.cut()
	_, err = c.Read(make([]byte, 1))
	wantError(t, err, ErrConnLost)
	_, err = c.Write([]byte("x"))
	wantError(t, err, ErrConnLost)
	if c, err = h.DialContext(t.Context(), "tcp", peer.String()); err != nil {
		t.Fatalf("again: %v", err)
	}
	c.Close()
}

// Connections that carried relays may all be dead, but who always hangs up is not called for ever.
func TestRelayOfAnSSHDThatHangsUp(t *testing.T) {
	s := startServer(t, hangsUp)
	_, err := s.host(t, nil).Relay(t.Context(), "tcp", "127.0.0.1:80")
	wantError(t, err, ErrConnLost)
	if got := s.dials.Load(); got > relayConns+1 {
		t.Errorf("%d connections", got)
	}
}

// A program that dies is not a peer that hangs up.
func TestRelayKilled(t *testing.T) {
	s, h := relayHost(t, "bash", nil)
	c, err := h.Relay(t.Context(), "tcp", listen(t, echo).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.kill()
	if _, err = c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("got %v", err)
	}
}

// Open relays leave commands their sessions, on a server that allows few as well.
func TestRelaysDoNotStarveCommands(t *testing.T) {
	for name, max := range map[string]int{"sshd's default": 10, "few": 2} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			open := map[string]int{}
			_, h := relayHost(t, "bash", func(s *server) {
				s.ChannelHandlers["session"] = func(srv *gliderssh.Server, conn *ssh.ServerConn, ch ssh.NewChannel, ctx gliderssh.Context) {
					mu.Lock()
					open[ctx.SessionID()]++
					n := open[ctx.SessionID()]
					mu.Unlock()
					defer func() { mu.Lock(); open[ctx.SessionID()]--; mu.Unlock() }()
					if n > max {
						_ = ch.Reject(ssh.ConnectionFailed, "open failed")
						return
					}
					gliderssh.DefaultSessionHandler(srv, conn, ch, ctx)
				}
			})
			peer := listen(t, echo).String()
			room := relayConns * min(max, sessionsPerConn)
			for range room {
				c, err := h.DialContext(t.Context(), "tcp", peer)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := h.DialContext(ctx, "tcp", peer); err == nil || !strings.Contains(err.Error(), "relays to end") && !strings.Contains(err.Error(), "no more sessions") {
				t.Errorf("one relay more than there is room for: %v", err)
			}
		})
	}
}
