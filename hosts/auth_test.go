package hosts

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
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
	"golang.org/x/crypto/ssh"
)

// person answers questions in order and notes what was asked.
type person struct {
	mu      sync.Mutex
	answers []string
	asked   []string
	again   []error
}

func (p *person) ask(_ context.Context, q Question) (Secret, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q.What)
	p.again = append(p.again, q.Again)
	if len(p.answers) == 0 {
		return Secret{}, ErrNobody
	}
	answer := p.answers[0]
	p.answers = p.answers[1:]
	return NewSecret(answer), nil
}

// config is the configuration of the server's host.
func (s *server) config() Config {
	return Config{
		Name: "cp1", Address: "127.0.0.1", Port: s.addr.Port, User: "ops", Sudo: true,
		KeyFiles: []string{s.files["key"]}, KnownHostsFiles: []string{s.files["known_hosts"]},
	}
}

// lock puts the server's user key under a name, with a passphrase.
func (s *server) lock(t *testing.T, name, passphrase string) {
	t.Helper()
	data, err := os.ReadFile(s.files["key"])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, name, string(pem.EncodeToMemory(block)))
}

func TestPassphraseIsAskedOnce(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := startServer(t, nil)
	s.lock(t, "locked", "open sesame")
	p := &person{answers: []string{"wrong", "open sesame"}}
	n := NewNetwork(p.ask)
	var all sync.WaitGroup
	for range 5 {
		c := s.config()
		c.KeyFiles = []string{s.files["locked"]}
		h := n.Host(c)
		t.Cleanup(func() { h.Close() })
		all.Go(func() {
			if err := h.Connect(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(p.asked) != 2 || p.again[0] != nil || p.again[1] == nil || !strings.Contains(p.asked[0], s.files["locked"]) {
		t.Errorf("asked %q, again %v, want twice for one file, the second time with a reason", p.asked, p.again)
	}
}

// A host that would not take the key is no reason to ask for its passphrase.
func TestPassphraseIsNotAskedInVain(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := startServer(t, nil)
	s.lock(t, "locked", "open sesame")
	s.user, _ = newSigner(t)
	p := &person{answers: []string{"open sesame"}}
	c := s.config()
	c.KeyFiles = []string{s.files["locked"]}
	h := NewNetwork(p.ask).Host(c)
	wantError(t, h.Connect(t.Context()), ErrAuth)
	if len(p.asked) > 0 {
		t.Errorf("asked %q", p.asked)
	}
}

func TestPassphraseThatNobodyGives(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := startServer(t, nil)
	s.lock(t, "locked", "open sesame")
	h := s.host(t, func(c *Config) { c.KeyFiles = []string{s.files["locked"]} })
	err := h.Connect(t.Context())
	wantError(t, err, ErrNobody, "passphrase of "+s.files["locked"], "ssh-agent")
	wantError(t, err, ErrAuth)

	p := &person{answers: []string{"a", "", "c", "open sesame"}}
	n := NewNetwork(p.ask)
	c := s.config()
	c.KeyFiles = []string{s.files["locked"]}
	wantError(t, n.Host(c).Connect(t.Context()), ErrAuth, "does not open it")
	wantError(t, n.Host(c).Connect(t.Context()), ErrPassphrase) // the next host does not ask again
	if len(p.asked) != passphraseTries {
		t.Errorf("asked %d times, want %d", len(p.asked), passphraseTries)
	}
}

func TestPassphraseTakesItsTime(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := startServer(t, nil)
	s.lock(t, "locked", "open sesame")
	c := s.config()
	c.KeyFiles, c.ConnectTimeout = []string{s.files["locked"]}, time.Second
	h := NewNetwork(func(ctx context.Context, _ Question) (Secret, error) {
		return NewSecret("open sesame"), sleep(ctx, 1100*time.Millisecond) // longer than the limit of a connection
	}).Host(c)
	defer h.Close()
	if err := h.Connect(t.Context()); err != nil {
		t.Error(err)
	}
}

// An old form of key file does not show whose key it is, so its passphrase is asked for before a host is.
func TestPassphraseOfAnOldKeyTakesItsTime(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := startServer(t, nil)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s.user, _ = ssh.NewSignerFromKey(key)
	//lint:ignore SA1019 the old form is what this is about
	block, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), []byte("open sesame"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, "locked", string(pem.EncodeToMemory(block)))
	c := s.config()
	c.KeyFiles, c.ConnectTimeout = []string{s.files["locked"]}, time.Second
	h := NewNetwork(func(ctx context.Context, _ Question) (Secret, error) {
		return NewSecret("open sesame"), sleep(ctx, 1100*time.Millisecond)
	}).Host(c)
	defer h.Close()
	if err := h.Connect(t.Context()); err != nil {
		t.Error(err)
	}
}

// An agent may wait for somebody to touch a key; the context ends that as well.
func TestAgentThatNeverAnswers(t *testing.T) {
	s := startServer(t, nil)
	sock := filepath.Join(s.dir, "agent")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan struct{}, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 1))
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	}()
	h := s.host(t, func(c *Config) { c.Agent, c.KeyFiles, c.ConnectTimeout = sock, nil, 15*time.Second })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Connect(ctx) }()
	<-asked
	cancel()
	waitFor(t, "the end of the call", func() bool { return len(done) == 1 })
	wantError(t, <-done, context.Canceled)
}

// A key that the agent holds needs no passphrase, and a public key file names a key of the agent.
func TestKeyFileHeldByAgent(t *testing.T) {
	s := startServer(t, nil)
	held := serveAgent(t)
	s.user = held
	s.put(t, "agent.pub", string(ssh.MarshalAuthorizedKey(held.PublicKey())))
	if err := s.host(t, func(c *Config) { c.KeyFiles = []string{s.files["agent.pub"]} }).Connect(t.Context()); err != nil {
		t.Error(err)
	}
	stranger, _ := newSigner(t)
	s.put(t, "stranger.pub", string(ssh.MarshalAuthorizedKey(stranger.PublicKey())))
	err := s.host(t, func(c *Config) { c.KeyFiles = []string{s.files["stranger.pub"]} }).Connect(t.Context())
	wantError(t, err, ErrAuth, "stranger.pub", "agent does not hold")
	err = s.host(t, func(c *Config) { c.Agent = "none"; c.KeyFiles = []string{s.files["agent.pub"]} }).Connect(t.Context())
	wantError(t, err, ErrAuth, "agent does not hold")
}

// Named key files keep the other keys of the agent back: sshd counts each as an attempt (MaxAuthTries).
func TestOnlyNamedKeysAreOffered(t *testing.T) {
	var offered []string
	s := startServer(t, func(s *server) {
		s.PublicKeyHandler = func(_ gliderssh.Context, k gliderssh.PublicKey) bool {
			offered = append(offered, ssh.FingerprintSHA256(k))
			return gliderssh.KeysEqual(k, s.user.PublicKey())
		}
	})
	held := serveAgent(t)
	if err := s.host(t, nil).Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range offered {
		if o == ssh.FingerprintSHA256(held.PublicKey()) {
			t.Error("offered a key of the agent that no file names")
		}
	}
}

func TestRSAKeySignsWithSHA2(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(s *server) {
		s.ServerConfigCallback = func(gliderssh.Context) *ssh.ServerConfig {
			return &ssh.ServerConfig{PublicKeyAuthAlgorithms: []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512}}
		}
	})
	if s.user, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	s.put(t, "rsa", string(pem.EncodeToMemory(block)))
	if err := s.host(t, func(c *Config) { c.KeyFiles = []string{s.files["rsa"]} }).Connect(t.Context()); err != nil {
		t.Error(err)
	}
}

// signCertificate has an authority sign a certificate for a key.
func signCertificate(t *testing.T, authority ssh.Signer, c ssh.Certificate) *ssh.Certificate {
	t.Helper()
	if err := c.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestUserCertificate(t *testing.T) {
	authority, _ := newSigner(t)
	s := startServer(t, func(s *server) {
		s.PublicKeyHandler = func(ctx gliderssh.Context, k gliderssh.PublicKey) bool {
			cert, ok := k.(*ssh.Certificate)
			return ok && gliderssh.KeysEqual(cert.SignatureKey, authority.PublicKey()) &&
				(&ssh.CertChecker{}).CheckCert(ctx.User(), cert) == nil
		}
	})
	now := uint64(time.Now().Unix())
	good := signCertificate(t, authority, ssh.Certificate{
		Key: s.user.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"ops"}, ValidBefore: now + 60,
	})
	old := signCertificate(t, authority, ssh.Certificate{
		Key: s.user.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"ops"}, ValidBefore: now - 60,
	})
	s.put(t, "named", string(ssh.MarshalAuthorizedKey(good)))
	s.put(t, "old", string(ssh.MarshalAuthorizedKey(old)))
	if err := s.host(t, func(c *Config) { c.CertificateFiles = []string{s.files["named"]} }).Connect(t.Context()); err != nil {
		t.Errorf("named: %v", err)
	}
	err := s.host(t, func(c *Config) { c.CertificateFiles = []string{s.files["old"]} }).Connect(t.Context())
	wantError(t, err, ErrAuth, s.files["old"]+", expired 20")
	s.put(t, "key-cert.pub", string(ssh.MarshalAuthorizedKey(good)))
	if err := s.host(t, nil).Connect(t.Context()); err != nil {
		t.Errorf("beside the key: %v", err)
	}
	s.lock(t, "locked", "open sesame")
	s.put(t, "locked-cert.pub", string(ssh.MarshalAuthorizedKey(good)))
	c := s.config()
	c.KeyFiles = []string{s.files["locked"]}
	h := NewNetwork((&person{answers: []string{"open sesame"}}).ask).Host(c)
	defer h.Close()
	if err := h.Connect(t.Context()); err != nil {
		t.Errorf("of a locked key: %v", err)
	}
}

func TestCertificateOfNoKey(t *testing.T) {
	s := startServer(t, nil)
	s.user, _ = newSigner(t)
	other, _ := newSigner(t)
	cert := signCertificate(t, other, ssh.Certificate{Key: other.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"ops"}})
	s.put(t, "cert", string(ssh.MarshalAuthorizedKey(cert)))
	err := s.host(t, func(c *Config) { c.CertificateFiles = []string{s.files["cert"]} }).Connect(t.Context())
	wantError(t, err, ErrAuth, "not certificate "+s.files["cert"])
	s.put(t, "host", string(ssh.MarshalAuthorizedKey(signCertificate(t, other, ssh.Certificate{Key: other.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"cp1"}}))))
	err = s.host(t, func(c *Config) { c.CertificateFiles = []string{s.files["host"]} }).Connect(t.Context())
	wantError(t, err, ErrAuth, "not an OpenSSH user certificate")
}

func TestNoKeyAtAll(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	s := startServer(t, nil)
	wantError(t, s.host(t, func(c *Config) { c.KeyFiles = nil }).Connect(t.Context()), ErrAuth, "no key to offer", "SSH_AUTH_SOCK")

	dir := filepath.Join(os.Getenv("HOME"), ".ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.files["key"])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "id_ed25519"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.host(t, func(c *Config) { c.KeyFiles = nil }).Connect(t.Context()); err != nil {
		t.Errorf("the key of the home directory: %v", err)
	}
}

func TestSecretIsNotShown(t *testing.T) {
	s := NewSecret("open sesame")
	encoded, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{s.String(), s.GoString(), s.LogValue().String(), string(encoded)} {
		if strings.Contains(shown, "sesame") {
			t.Errorf("shown as %q", shown)
		}
	}
}

func TestAnswerIsAskedAgainOnlyByTheRefused(t *testing.T) {
	p := &person{answers: []string{"one", "two"}}
	s := newSecrets(p.ask)
	first, err := s.get(t.Context(), "id", Question{What: "w"}, Secret{})
	if err != nil {
		t.Fatal(err)
	}
	again := Question{What: "w", Again: errors.New("wrong")}
	second, err := s.get(t.Context(), "id", again, first)
	if err != nil {
		t.Fatal(err)
	}
	// A host that was refused the first answer as well takes the second one, which nobody has tried there.
	third, err := s.get(t.Context(), "id", again, first)
	if err != nil || second == first || third != second || len(p.asked) != 2 {
		t.Errorf("got %v, %v, asked %d times", second == first, err, len(p.asked))
	}
}
