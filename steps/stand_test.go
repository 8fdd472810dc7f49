package steps

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/kuberung/kuberung/internal/config"
)

// stand is a host behind a real SSH server in this process. Scripts run by a real shell, on a machine
// of stand-ins whose root is a temporary directory; a program it does not have fails the script.
type stand struct {
	*machine
	fake string // where stand-ins keep their state and their log
	ssh  config.SSH

	mu      sync.Mutex
	forward map[string]string // where connections to an address of the host go
	forbids bool              // sshd forwards nothing
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{machine: newMachine(t), fake: t.TempDir(), forward: map[string]string{}}
	s.tools("basename chmod cp date dirname env flock id mkdir mktemp mv rm sh sha256sum stat sync tail tr wc")
	s.program("chown", ":")
	for _, name := range []string{"sudo", "systemctl", "systemd-run", "kubeadm"} {
		s.program(name, strings.TrimPrefix(read(t, "bin/"+name), "#!/bin/sh\n"))
	}
	for _, dir := range []string{"/var/lib/kuberung", "/run/systemd/system"} {
		if err := os.MkdirAll(s.root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hostKey, _ := newKey(t)
	userKey, private := newKey(t)
	server := &gliderssh.Server{
		Handler:           s.session,
		HostSigners:       []gliderssh.Signer{hostKey},
		SubsystemHandlers: map[string]gliderssh.SubsystemHandler{"sftp": s.sftp},
		ChannelHandlers:   map[string]gliderssh.ChannelHandler{"session": gliderssh.DefaultSessionHandler, "direct-tcpip": s.tunnel},
		PublicKeyHandler: func(_ gliderssh.Context, k gliderssh.PublicKey) bool {
			return gliderssh.KeysEqual(k, userKey.PublicKey())
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served })
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	s.note("key", string(pem.EncodeToMemory(block)))
	s.note("known_hosts", knownhosts.Line([]string{l.Addr().String()}, hostKey.PublicKey())+"\n")
	s.ssh = config.SSH{
		User: "ops", Port: l.Addr().(*net.TCPAddr).Port, Sudo: true,
		Key: filepath.Join(s.fake, "key"), KnownHosts: filepath.Join(s.fake, "known_hosts"),
	}
	t.Cleanup(func() {
		if text := s.noted("unexpected"); text != "" {
			t.Errorf("the host was asked for what no test expects:\n%s", text)
		}
	})
	return s
}

func newKey(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, private
}

// session gives a session on a cluster whose one control plane, or whose one worker, is the stand.
func (s *stand) open(role string) *Session {
	c := cluster(1, 0)
	if role == config.Worker {
		c = cluster(0, 1)
	}
	c.Hosts[0].Address, c.Hosts[0].SSH = "127.0.0.1", s.ssh
	session := Open(c, nil)
	s.t.Cleanup(func() { session.Close() })
	return session
}

// note and noted are the state that tests and stand-ins share. What is not there is empty.
func (s *stand) note(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.fake, name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) noted(name string) string {
	data, err := os.ReadFile(filepath.Join(s.fake, name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	return string(data)
}

// on gives what stands on the host under a name.
func (s *stand) on(name string) string {
	data, err := os.ReadFile(s.root + name)
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	return string(data)
}

// ran gives the log of the stand-ins, without looks at units, and starts it anew.
func (s *stand) ran() []string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(s.noted("log"), s.root, "")) {
		if !strings.HasPrefix(line, "systemctl show -p") && !strings.HasPrefix(line, "systemctl reset-failed") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	s.note("log", "")
	return lines
}

var packed = regexp.MustCompile(`^eval "\$\(printf '%b' '(.*)'\)"\n$`)

// session runs a script as sshd would, on the stand's machine.
func (s *stand) session(sess gliderssh.Session) {
	stdin := bufio.NewReader(sess)
	sudo := false
	var m []string
	for m == nil {
		line, err := stdin.ReadString('\n')
		m = packed.FindStringSubmatch(line)
		sudo = sudo || strings.Contains(line, " sudo -n -- ")
		if err != nil || m == nil && !strings.HasPrefix(line, "exec /usr/bin/env ") {
			s.t.Errorf("the host was sent %q, %v, want a packed script", line, err)
			_ = sess.Exit(127)
			return
		}
	}
	script := regexp.MustCompile(`\\0[0-7]{3}`).ReplaceAllStringFunc(m[1], func(o string) string {
		n, _ := strconv.ParseUint(o[2:], 8, 8)
		return string([]byte{byte(n)})
	})
	cmd := exec.CommandContext(sess.Context(), "/bin/sh", "-c", s.moved(script))
	if sudo {
		cmd = exec.CommandContext(sess.Context(), filepath.Join(s.bin, "sudo"), "-n", "--", "/bin/sh", "-c", s.moved(script))
	}
	cmd.Env = []string{"PATH=" + s.bin, "FAKE=" + s.fake, "ROOT=" + s.root, "SUDO_UID=" + fmt.Sprint(os.Getuid())}
	cmd.Stdout, cmd.Stderr = sess, sess.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Error(err)
		return
	}
	go func() { _, _ = io.Copy(in, stdin); in.Close() }() // not waited for: a program may end before its input
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Error(err)
		_ = sess.Exit(127)
		return
	}
	if cmd.ProcessState.ExitCode() == 127 {
		s.t.Errorf("a script wants a program that the host does not have:\n%s", script)
	}
	_ = sess.Exit(cmd.ProcessState.ExitCode())
}

// moved puts the absolute paths of a script below the stand's root, and takes this machine's programs away.
func (s *stand) moved(script string) string {
	for _, dir := range []string{"/var/lib/", "/etc/kubernetes", "/run/systemd/system"} {
		script = strings.ReplaceAll(script, dir, s.root+dir)
	}
	return regexp.MustCompile(`:?(/usr/local|/usr)?/s?bin(:(/usr/local|/usr|/opt)?/s?bin)+`).ReplaceAllString(script, ":"+s.bin)
}

func (s *stand) sftp(sess gliderssh.Session) {
	server := sftp.NewRequestServer(sess, sftp.Handlers{FileGet: s, FilePut: s, FileCmd: s, FileList: s})
	_ = server.Serve() // ends with the session
}

// The methods of sftp.Handlers: files arrive, nothing else is done over SFTP.

func (s *stand) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	return os.OpenFile(s.root+r.Filepath, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}
func (s *stand) Fileread(*sftp.Request) (io.ReaderAt, error) { return nil, sftp.ErrSSHFxOpUnsupported }
func (s *stand) Filecmd(*sftp.Request) error                 { return sftp.ErrSSHFxOpUnsupported }
func (s *stand) Filelist(*sftp.Request) (sftp.ListerAt, error) {
	return nil, sftp.ErrSSHFxOpUnsupported
}

// tunnel connects to what stands in for an address of the host.
func (s *stand) tunnel(_ *gliderssh.Server, _ *ssh.ServerConn, open ssh.NewChannel, _ gliderssh.Context) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(open.ExtraData(), &to); err != nil {
		_ = open.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	address := net.JoinHostPort(to.Host, fmt.Sprint(to.Port))
	s.mu.Lock()
	real, found := s.forward[address]
	forbids := s.forbids
	s.mu.Unlock()
	if forbids {
		_ = open.Reject(ssh.Prohibited, "administratively prohibited: open failed")
		return
	}
	if !found {
		_ = open.Reject(ssh.ConnectionFailed, "connection refused")
		return
	}
	conn, err := net.Dial("tcp", real)
	if err != nil {
		_ = open.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := open.Accept()
	if err != nil {
		conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	go func() { _, _ = io.Copy(ch, conn); ch.Close() }()
	go func() { _, _ = io.Copy(conn, ch); conn.Close() }()
}

// listen lets an address of the host be a TLS server in this process.
func (s *stand) listen(address string, a answer) {
	s.t.Helper()
	server := newTLSServer(s.t, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward[address] = server
}

// remove takes away what stands on the host under a name.
func (s *stand) remove(name string) {
	s.t.Helper()
	if err := os.Remove(s.root + name); err != nil {
		s.t.Fatal(err)
	}
}
