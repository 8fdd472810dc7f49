package hosts

import (
	"context"
	"crypto/ed25519"
	"fmt"
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
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// keysFor is what a known_hosts file records of a target.
func keysFor(t *testing.T, c Config, lines ...string) (*hostKeys, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.KnownHostsFiles = []string{file}
	k, err := New(c).hostKeys()
	if err != nil {
		t.Fatal(err)
	}
	return k, file
}

// Each row is the target and a line for it that must match.
func TestForms(t *testing.T) {
	signer, _ := newSigner(t)
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	for _, tt := range []struct {
		name  string
		host  Config
		names string
	}{
		{"name", Config{Address: "cp1.example.org"}, "cp1.example.org"},
		{"name and address", Config{Address: "cp1.example.org"}, "cp1.example.org,192.0.2.1"},
		{"pattern", Config{Address: "cp1.example.org"}, "*.example.org"},
		{"port", Config{Address: "cp1", Port: 2222}, "[cp1]:2222"},
		{"IPv4", Config{Address: "192.0.2.1"}, "192.0.2.1"},
		{"IPv6", Config{Address: "2001:db8::1"}, "2001:db8::1"},
		{"IPv6 in brackets", Config{Address: "2001:db8::1"}, "[2001:db8::1]:22"},
		{"IPv6 and port", Config{Address: "2001:db8::1", Port: 2222}, "[2001:db8::1]:2222"},
		{"IPv6 with zone", Config{Address: "fe80::1%eth0"}, "fe80::1%eth0"},
		{"capitals", Config{Address: "CP1.Example.org"}, "cp1.example.org"},
		{"IPv6 at length", Config{Address: "2001:DB8:0::1"}, "2001:db8::1"},
		{"hashed", Config{Address: "cp1"}, xknownhosts.HashHostname("cp1")},
		{"hashed with port", Config{Address: "cp1", Port: 2222}, xknownhosts.HashHostname("[cp1]:2222")},
		{"hashed IPv6", Config{Address: "2001:db8::1"}, xknownhosts.HashHostname("2001:db8::1")},
		{"alias", Config{Address: "192.0.2.1", Port: 2222, HostKeyAlias: "cp1"}, "cp1"},
		{"what we write", Config{Address: "2001:db8::1", Port: 2222}, strings.Fields(knownhosts.Line([]string{"[2001:db8::1]:2222"}, signer.PublicKey()))[0]},
		{"what we write on port 22", Config{Address: "2001:db8::1"}, strings.Fields(knownhosts.Line([]string{"[2001:db8::1]:22"}, signer.PublicKey()))[0]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, _ := keysFor(t, tt.host, tt.names+" "+key)
			if err := k.check(t.Context(), signer.PublicKey()); err != nil {
				t.Error(err)
			}
			if got := k.recorded(); len(got) != 1 || got[0] != ssh.KeyAlgoED25519 {
				t.Errorf("recorded %q", got)
			}
			other, _ := newSigner(t)
			wantError(t, k.check(t.Context(), other.PublicKey()), ErrHostKeyChanged, ":1 has")
		})
	}
}

// A line that nobody can read takes nothing from the others, but a revocation must be read.
func TestBadLines(t *testing.T) {
	signer, _ := newSigner(t)
	line := knownhosts.Line([]string{"cp1"}, signer.PublicKey())
	k, _ := keysFor(t, Config{Address: "cp1"}, "garbage", "[2001:db8::1] ssh-ed25519 AAAA", line)
	if err := k.check(t.Context(), signer.PublicKey()); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte(line+"\n@revoked * ssh-ed25519 AAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Config{Address: "cp1", KnownHostsFiles: []string{file}}).hostKeys()
	if err == nil || !strings.Contains(err.Error(), file+":2") {
		t.Errorf("got %v, want an error that names line 2", err)
	}
}

func TestHostCertificate(t *testing.T) {
	authority, _ := newSigner(t)
	ca := string(ssh.MarshalAuthorizedKey(authority.PublicKey()))
	for _, tt := range []struct {
		name, principal string
		valid           time.Duration
		known           string
		want            error
		says            string
	}{
		{"good", "127.0.0.1", time.Hour, "@cert-authority * " + ca, nil, ""},
		{"for another host", "elsewhere", time.Hour, "@cert-authority * " + ca, ErrHostKeyChanged, "elsewhere"},
		{"expired", "127.0.0.1", -time.Hour, "@cert-authority * " + ca, ErrHostKeyChanged, "expired"},
		{"of a revoked authority", "127.0.0.1", time.Hour, "@cert-authority * " + ca + "@revoked * " + ca, ErrHostKeyChanged, ""},
		// Nobody vouches for the certificate: the host is unknown, not an attacker.
		{"of an unknown authority", "127.0.0.1", time.Hour, "# nothing\n", ErrHostKeyUnknown, "is not in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, func(s *server) {
				cert := signCertificate(t, authority, ssh.Certificate{
					Key: s.key.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{tt.principal},
					ValidBefore: uint64(time.Now().Add(tt.valid).Unix()),
				})
				signer, err := ssh.NewCertSigner(cert, s.key)
				if err != nil {
					t.Fatal(err)
				}
				s.HostSigners = []gliderssh.Signer{signer, s.key}
			})
			s.put(t, "known_hosts", tt.known)
			err := s.host(t, nil).Connect(t.Context())
			if tt.want == nil && err != nil {
				t.Error(err)
			}
			if tt.want != nil {
				wantError(t, err, tt.want, tt.says)
			}
		})
	}
}

func TestAcceptNew(t *testing.T) {
	s, stranger := startServer(t, nil), startServer(t, nil)
	old, err := os.ReadFile(s.files["known_hosts"])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "home", ".ssh", "known_hosts")
	learn := func(c *Config) { c.AcceptNew = true; c.KnownHostsFiles = []string{file, s.files["absent"]} }
	h := s.host(t, learn)
	if err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.net.Accepted(), ";"); !strings.HasPrefix(got, "cp1: ssh-ed25519 ") || !strings.Contains(got, file) || !strings.Contains(got, ssh.FingerprintSHA256(s.key.PublicKey())) {
		t.Errorf("accepted %q", got)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(old) {
		t.Errorf("recorded %q, %v, want %q", got, err, old)
	}
	// From now on it is known, with or without the wish to accept new ones.
	again := s.host(t, func(c *Config) { c.KnownHostsFiles = []string{file} })
	if err := again.Connect(t.Context()); err != nil || len(again.net.Accepted()) > 0 {
		t.Errorf("%v, accepted %q", err, again.net.Accepted())
	}
	takeover := s.host(t, func(c *Config) { // the stranger in the place of the host
		learn(c)
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, stranger.addr.String())
		}
	})
	wantError(t, takeover.Connect(t.Context()), ErrHostKeyChanged, file+":1")
	if got, _ := os.ReadFile(file); string(got) != string(old) {
		t.Errorf("a changed key was recorded: %q", got)
	}
}

// Many new hosts at once leave one line each, whoever else writes, and none is glued to an unfinished last line.
func TestAcceptNewTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	signer, _ := newSigner(t)
	line := knownhosts.Line([]string{"elsewhere"}, signer.PublicKey())
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	n := NewNetwork(nil)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			k, err := n.Host(Config{Address: fmt.Sprintf("cp%d", i/2), AcceptNew: true, KnownHostsFiles: []string{file}}).hostKeys()
			if err == nil {
				err = k.check(t.Context(), signer.PublicKey())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(data), "\n"); got != 11 || !strings.HasPrefix(string(data), line+"\n") {
		t.Errorf("%d lines, want 11:\n%s", got, data)
	}
}

func TestAcceptNewThatCannotBeWritten(t *testing.T) {
	s := startServer(t, nil)
	dir := filepath.Join(s.dir, "a file, no directory")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := s.host(t, func(c *Config) {
		c.AcceptNew, c.KnownHostsFiles = true, []string{filepath.Join(dir, "known_hosts")}
	})
	if err := h.Connect(t.Context()); err == nil || len(h.net.Accepted()) > 0 {
		t.Errorf("%v, accepted %q", err, h.net.Accepted())
	}
}

// What keeps no record would make every key a new one.
func TestAcceptNewIntoNothing(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, func(c *Config) { c.AcceptNew, c.KnownHostsFiles = true, []string{os.DevNull} })
	wantError(t, h.Connect(t.Context()), ErrHostKeyUnknown, os.DevNull)
	if got := h.net.Accepted(); len(got) > 0 {
		t.Errorf("accepted %q", got)
	}
}

// The key is checked again whenever keys are exchanged anew.
func TestAcceptNewThenRekey(t *testing.T) {
	s := startServer(t, func(s *server) {
		s.ServerConfigCallback = func(gliderssh.Context) *ssh.ServerConfig {
			return &ssh.ServerConfig{Config: ssh.Config{RekeyThreshold: 4 << 10}}
		}
	})
	h := s.host(t, func(c *Config) {
		c.AcceptNew, c.KnownHostsFiles = true, []string{filepath.Join(s.dir, "new_known_hosts")}
	})
	for range 3 {
		out, err := h.Run(t.Context(), Cmd{Argv: []string{"head", "-c", "100000", "/dev/zero"}})
		if err != nil || len(out) != 100000 {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	}
	if got := s.dials.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// A file that changes is read again; one that does not is read once.
func TestRecordsAreReadAgain(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	if err := h.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := h.hostKeys()
	if err != nil {
		t.Fatal(err)
	}
	same, err := h.hostKeys()
	if err != nil || same.db != first.db {
		t.Errorf("read again without a change, %v", err)
	}
	s.put(t, "known_hosts", "# emptied\n")
	s.cut()
	waitFor(t, "the loss", func() bool { c, _ := h.current(); return c == nil })
	wantError(t, h.Connect(t.Context()), ErrHostKeyUnknown)
}

// fuzzKey is a key that no file holds.
var fuzzKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func FuzzKnownHosts(f *testing.F) {
	f.Add("cp1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJbN3g0Nq0T1P0b2s8H2m8i6yQ0aYbq6nW0Yw7mO0J0f\n")
	f.Add("@revoked * ssh-ed25519 AAAA\n")
	f.Add("|1|AAAA|BBBB ssh-rsa x\n@cert-authority *.x ssh-ed25519 y\n")
	signer, err := ssh.NewSignerFromKey(fuzzKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := New(Config{Address: "cp1", KnownHostsFiles: []string{file}}).hostKeys()
		if err != nil {
			return
		}
		// A file that does not hold the key never makes it trusted.
		blob := strings.Fields(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))[1]
		if !strings.Contains(text, blob) && k.check(t.Context(), signer.PublicKey()) == nil {
			t.Errorf("trusted by %q", text)
		}
	})
}
