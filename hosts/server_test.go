package hosts

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
	"github.com/skeema/knownhosts"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
)

// server is an SSH and SFTP server in this process. It runs commands by a real shell, with the stand-ins of
// testdata/bin first on PATH.
type server struct {
	*gliderssh.Server
	addr  *net.TCPAddr
	key   ssh.Signer // the host key
	dir   string     // for what the test likes
	fake  string     // where the stand-ins keep their state
	state string     // what would be /var/lib/kuberung
	user  ssh.Signer
	files map[string]string // key, known_hosts

	shell   []string // runs a command line; default /bin/sh -c
	noSFTP  bool
	deaf    bool // signals reach nobody, as they do not reach root's processes
	forward atomic.Bool
	dials   atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
	procs []*os.Process
	open  atomic.Int64 // session channels
	most  atomic.Int64 // most of them at once
	max   int64        // refuse sessions beyond; 0: no limit
}

func newSigner(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return s, priv
}

// startServer starts a server that accepts one user key and is in known_hosts. setup, if not nil, runs before.
func startServer(t *testing.T, setup func(*server)) *server {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	s := &server{dir: t.TempDir(), fake: t.TempDir(), shell: []string{"/bin/sh", "-c"}, conns: map[net.Conn]bool{}, files: map[string]string{}}
	s.state = filepath.Join(s.dir, "state")
	s.forward.Store(true)
	s.key, _ = newSigner(t)
	user, priv := newSigner(t)
	s.user = user
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, "key", string(pem.EncodeToMemory(block)))
	s.Server = &gliderssh.Server{
		Handler:         s.session,
		HostSigners:     []gliderssh.Signer{s.key},
		ChannelHandlers: map[string]gliderssh.ChannelHandler{"session": s.sessionChannel, "direct-tcpip": gliderssh.DirectTCPIPHandler},
		PublicKeyHandler: func(_ gliderssh.Context, k gliderssh.PublicKey) bool {
			return gliderssh.KeysEqual(k, s.user.PublicKey())
		},
		LocalPortForwardingCallback: func(gliderssh.Context, string, uint32) bool { return s.forward.Load() },
	}
	if setup != nil {
		setup(s)
	}
	if !s.noSFTP {
		s.SubsystemHandlers = map[string]gliderssh.SubsystemHandler{"sftp": serveSFTP}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().(*net.TCPAddr)
	s.put(t, "known_hosts", knownhosts.Line([]string{s.addr.String()}, s.key.PublicKey())+"\n")
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(tracked{l, s}) }()
	t.Cleanup(func() { s.Server.Close(); l.Close(); s.cut(); <-served; s.kill() }) // Close misses a listener that Serve has not seen yet
	return s
}

func (s *server) put(t *testing.T, name, content string) {
	t.Helper()
	s.files[name] = filepath.Join(s.dir, name)
	if err := os.WriteFile(s.files[name], []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// flag sets or clears a switch of the stand-ins.
func (s *server) flag(t *testing.T, name string, on bool) {
	t.Helper()
	var err error
	if on {
		err = os.WriteFile(filepath.Join(s.fake, name), nil, 0o600)
	} else {
		err = os.Remove(filepath.Join(s.fake, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// host is a client of the server with short waits. change, if not nil, edits its configuration.
func (s *server) host(t *testing.T, change func(*Config)) *Host {
	t.Helper()
	c := Config{
		Name: "cp1", Address: "127.0.0.1", Port: s.addr.Port, User: "ops", Sudo: true,
		KeyFiles: []string{s.files["key"]}, KnownHostsFiles: []string{s.files["known_hosts"]},
	}
	if change != nil {
		change(&c)
	}
	h := New(c)
	bin, _ := filepath.Abs("testdata/bin")
	h.tune.searchPath = bin + ":" + searchPath
	h.tune.environment = []string{"FAKE=" + s.fake}
	h.tune.stateDir = s.state
	h.tune.pollEvery = 10 * time.Millisecond
	h.tune.retryFrom = 10 * time.Millisecond
	h.tune.retryTo = 50 * time.Millisecond
	h.tune.outputGrace = 100 * time.Millisecond
	t.Cleanup(func() { h.Close() })
	return h
}

// cut closes every connection, as a broken line would.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// kill ends what the shells and the stand-ins left running.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // its group; gone is fine
	}
}

type tracked struct {
	net.Listener
	s *server
}

type trackedConn struct {
	net.Conn
	s *server
}

func (l tracked) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.s.dials.Add(1)
	tc := trackedConn{c, l.s}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.conns[tc] = true
	return tc, nil
}

func (c trackedConn) Close() error {
	go func() {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		delete(c.s.conns, c)
	}()
	return c.Conn.Close()
}

// sessionChannel counts sessions and refuses them as sshd does beyond MaxSessions.
func (s *server) sessionChannel(srv *gliderssh.Server, conn *ssh.ServerConn, ch ssh.NewChannel, ctx gliderssh.Context) {
	n := s.open.Add(1)
	defer s.open.Add(-1)
	if s.max > 0 && n > s.max {
		_ = ch.Reject(ssh.ConnectionFailed, "open failed")
		return
	}
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	gliderssh.DefaultSessionHandler(srv, conn, ch, ctx)
}

// session runs a command the way sshd does: the exit status is sent when the process ends, the channel closes
// when nobody holds its output any more.
func (s *server) session(sess gliderssh.Session) {
	cmd := exec.Command(s.shell[0], append(s.shell[1:], sess.RawCommand())...)
	bin, _ := filepath.Abs("testdata/bin")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "FAKE="+s.fake)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, _ := cmd.StdinPipe()
	outR, outW, _ := os.Pipe()
	errR, errW, _ := os.Pipe()
	cmd.Stdout, cmd.Stderr = outW, errW
	err := cmd.Start()
	outW.Close()
	errW.Close()
	if err != nil {
		_ = sess.Exit(127)
		return
	}
	s.mu.Lock()
	s.procs = append(s.procs, cmd.Process)
	s.mu.Unlock()
	signals := make(chan gliderssh.Signal, 8)
	sess.Signals(signals)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-signals:
				if s.deaf {
					continue
				}
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			case <-over:
				return
			}
		}
	}()
	go func() { _, _ = io.Copy(stdin, sess); stdin.Close() }()
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(sess, outR); outR.Close() })
	copies.Go(func() { _, _ = io.Copy(sess.Stderr(), errR); errR.Close() })
	state, _ := cmd.Process.Wait()
	ws := state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		_, _ = sess.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal     string
			Core       bool
			Error, Tag string
		}{strings.TrimPrefix(signalName(ws.Signal()), "SIG"), false, "", ""}))
	} else {
		_, _ = sess.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(ws.ExitStatus())}))
	}
	gone := make(chan struct{})
	go func() { copies.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-sess.Context().Done():
	}
	sess.Close()
}

func signalName(s syscall.Signal) string {
	return map[syscall.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGKILL: "SIGKILL"}[s]
}

func serveSFTP(sess gliderssh.Session) {
	srv, err := sftp.NewServer(sess)
	if err != nil {
		return
	}
	_ = srv.Serve() // ends with the session
}

// waitFor fails the test unless cond holds within ten seconds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !cond() {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func verifyMain(m *testing.M) { goleak.VerifyTestMain(m) }
