package hosts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

const benchSize = 200 << 20

// BenchmarkUploadVersusScp sends a file to an OpenSSH server of this machine, in turn by an upload (without its
// checksum) and by scp, both with the time it takes to connect. At least 0.9 of scp's throughput is owed.
func BenchmarkUploadVersusScp(b *testing.B) {
	d := startSSHD(b)
	local := filepath.Join(b.TempDir(), "file")
	// Not zeros, which some file systems store in less time.
	if err := os.WriteFile(local, bytes.Repeat([]byte("kuberung"), benchSize/8), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(local)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var ours, theirs time.Duration
	rounds := 0
	for b.Loop() {
		ours += d.measure(b, func(remote string) error {
			h := New(d.config)
			defer h.Close()
			return h.send(b.Context(), f, benchSize, remote, nil)
		})
		theirs += d.measure(b, func(remote string) error { return d.scp(b.Context(), local, remote) })
		rounds++
	}
	speed := func(t time.Duration) float64 { return float64(rounds) * benchSize / 1e6 / t.Seconds() }
	b.ReportMetric(speed(ours), "MB/s")
	b.ReportMetric(speed(theirs), "scp-MB/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "x-scp")
}

// daemon is a real sshd that lets in the user who runs the test.
type daemon struct {
	config Config
	dir    string
}

// measure times one transfer to a new file.
func (d *daemon) measure(b *testing.B, transfer func(remote string) error) time.Duration {
	b.Helper()
	remote := filepath.Join(d.dir, "remote")
	begun := time.Now()
	if err := transfer(remote); err != nil {
		b.Fatal(err)
	}
	took := time.Since(begun)
	if info, err := os.Stat(remote); err != nil || info.Size() != benchSize {
		b.Fatalf("arrived: %v, %v", info, err)
	}
	if err := os.Remove(remote); err != nil {
		b.Fatal(err)
	}
	return took
}

func (d *daemon) scp(ctx context.Context, local, remote string) error {
	c := d.config
	out, err := exec.CommandContext(ctx, "scp", "-q", "-F", "none", "-B", "-i", c.KeyFiles[0], "-P", strconv.Itoa(c.Port),
		"-o", "IdentityAgent=none", "-o", "UserKnownHostsFile="+c.KnownHostsFiles[0], local, c.User+"@"+c.Address+":"+remote).CombinedOutput()
	if err != nil {
		return fmt.Errorf("scp: %w: %s", err, out)
	}
	return nil
}

// startSSHD starts OpenSSH's server on a port of its own.
func startSSHD(b testing.TB) *daemon {
	b.Helper()
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		b.Skip("this machine has no OpenSSH server to compare with: ", err)
	}
	me, err := user.Current()
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close() // sshd takes no listener
	d := &daemon{dir: b.TempDir()}
	hostKey, key := filepath.Join(d.dir, "hostkey"), filepath.Join(d.dir, "key")
	hostPublic, public := writeKey(b, hostKey), writeKey(b, key)
	put := func(name, content string) string {
		path := filepath.Join(d.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	known := put("known_hosts", knownhosts.Line([]string{addr.String()}, hostPublic)+"\n")
	authorized := put("authorized_keys", string(ssh.MarshalAuthorizedKey(public)))
	conf := put("sshd_config", fmt.Sprintf("ListenAddress %v\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nSubsystem sftp internal-sftp\n", addr, hostKey, authorized))
	d.config = Config{Address: "127.0.0.1", Port: addr.Port, User: me.Username, KeyFiles: []string{key}, KnownHostsFiles: []string{known}, Agent: "none"}
	if me.Uid == "0" {
		_ = os.MkdirAll("/run/sshd", 0o755) // sshd says it better if this fails
	}
	var said bytes.Buffer
	cmd := exec.Command(sshd, "-D", "-e", "-f", conf)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b.Failed() {
			b.Logf("sshd: %s", said.String())
		}
	})
	h := New(d.config)
	defer h.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err = h.Connect(b.Context()); err == nil {
			return d
		}
		if time.Now().After(deadline) || sleep(b.Context(), 20*time.Millisecond) != nil {
			b.Fatal(err)
		}
	}
}

// writeKey makes a private key and gives its public half.
func writeKey(b testing.TB, path string) ssh.PublicKey {
	b.Helper()
	public, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		b.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		b.Fatal(err)
	}
	return key
}
