//go:build lab

// The tests in the files lab_*_test.go need the site that `make e2e CASE=ssh` makes: real OpenSSH, sudo and systemd on
// hosts as strict and odd as real ones. That case runs them.
package hosts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

// labSite is what the case tells of the site.
type labSite struct {
	Keys       string // folder of keys, certificates and authorities
	KnownHosts string
	Passphrase string            // of the key "locked"
	Passwords  map[string]string // for sudo, by user
	Hosts      map[string]labHost
}

// labHost is one machine of it.
type labHost struct {
	Address, Address6, Container, Key string
}

// Where box has its sshds.
const (
	mainPort         = 22
	closedPort       = 2201 // no forwarding, no SFTP, two sessions
	garbagePort      = 2202 // an SFTP subsystem that says something before it begins
	certificatesPort = 2203 // certificates only, on both sides
)

var theSite = sync.OnceValues(func() (*labSite, error) {
	text, err := os.ReadFile(os.Getenv("KUBERUNG_LAB_SITE"))
	if err != nil {
		return nil, err
	}
	s := &labSite{}
	return s, json.Unmarshal(text, s)
})

// site returns the site, and fails the test where there is none.
func site(t *testing.T) *labSite {
	t.Helper()
	s, err := theSite()
	if err != nil {
		t.Fatalf("KUBERUNG_LAB_SITE: %v; run this by make e2e CASE=ssh LAB=small", err)
	}
	return s
}

// key is the path of one of the site's keys.
func (s *labSite) key(name string) string { return filepath.Join(s.Keys, name) }

// box is the host of all users, without Kubernetes and reached directly.
func (s *labSite) box(user string, port int) hosts.Config {
	return hosts.Config{
		Name: "box", Address: s.Hosts["box"].Address, Port: port, User: user, Agent: "none",
		KeyFiles: []string{s.key("plain")}, KnownHostsFiles: []string{s.KnownHosts}, Sudo: true,
	}
}

// node is a host of the cluster, reached through both bastions as a user with every difficulty.
func (s *labSite) node(t *testing.T, name, address string) hosts.Config {
	c := s.box("deploy", mainPort)
	c.Name, c.Address = name, address
	c.SudoPasswordFile = secretFile(t, s.Passwords["deploy"])
	for _, hop := range []string{"bastion-1", "bastion-2"} {
		c.Jump = append(c.Jump, hosts.Config{
			Name: hop, Address: s.Hosts[hop].Address, User: "jump", Agent: "none",
			KeyFiles: c.KeyFiles, KnownHostsFiles: c.KnownHostsFiles,
		})
	}
	return c
}

// open describes a host that the test closes.
func open(t *testing.T, c hosts.Config) *hosts.Host {
	t.Helper()
	return openIn(t, hosts.NewNetwork(nil), c)
}

// openIn is open in a network that hosts share.
func openIn(t *testing.T, n *hosts.Network, c hosts.Config) *hosts.Host {
	t.Helper()
	h := n.Host(c)
	t.Cleanup(func() { h.Close(); n.Close() })
	return h
}

// within limits one step of a test.
func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// on runs a script as root on a machine of the site without SSH and returns what it prints.
func (h labHost) on(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := h.try(script, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (h labHost) try(script string, args ...string) (string, error) {
	cmd := exec.Command("docker", append([]string{"exec", h.Container, "sh", "-c", script, "sh"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		err = &labError{h.Container, strings.TrimSpace(stderr.String())}
	}
	return string(out), err
}

// labError is a script that failed on a machine of the site.
type labError struct{ where, said string }

func (e *labError) Error() string { return e.where + ": " + e.said }

// eventually asks until a condition holds, and fails the test with what it last was.
func eventually(t *testing.T, what string, limit time.Duration, holds func() (string, bool)) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		last, ok := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v, last: %q", what, limit, last)
		}
	}
}

// secretFile writes a file with a secret on its first line.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	return writeFile(t, "secret", secret+"\n")
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asked answers questions in order and keeps them. The last answer is given again.
type asked struct {
	mu        sync.Mutex
	answers   []string
	questions []hosts.Question
}

func (a *asked) ask(_ context.Context, q hosts.Question) (hosts.Secret, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := a.answers[min(len(a.questions), len(a.answers)-1)]
	a.questions = append(a.questions, q)
	return hosts.NewSecret(answer), nil
}

// times is how often somebody was asked, and for what.
func (a *asked) times(t *testing.T, want int, what string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.questions) != want {
		t.Errorf("asked %d times, want %d: %+v", len(a.questions), want, a.questions)
	}
	for _, q := range a.questions {
		if !strings.Contains(q.What, what) {
			t.Errorf("asked for the %q, want the %s", q.What, what)
		}
	}
}

// The site is what the other tests take it for: if not, their passes would mean nothing.
func TestLabSiteIsStrict(t *testing.T) {
	s := site(t)
	for _, name := range []string{"box", "cp-1", "worker-1"} {
		for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
			out, err := s.Hosts[name].try(`cp /bin/true "$1/program" && "$1/program"; code=$?; rm "$1/program"; exit $code`, dir)
			if err == nil || !strings.Contains(err.Error(), "Permission denied") {
				t.Errorf("%s runs programs in %s: %q %v", name, dir, out, err)
			}
		}
		out := s.Hosts[name].on(t, `for f in /etc/ssh/sshd_config /etc/ssh/lab/*; do [ ! -f "$f" ] || sshd -T -f "$f"; done`)
		for _, line := range []string{"permitrootlogin no", "passwordauthentication no", "maxstartups 3:50:10", "disableforwarding yes"} {
			if !strings.Contains(out, line) {
				t.Errorf("no sshd of %s has %q", name, line)
			}
		}
	}
	if out, err := s.Hosts["box"].try(`su pty -s /bin/sh -c 'sudo -n true' </dev/null`); err == nil || !strings.Contains(err.Error(), "tty") {
		t.Errorf("sudo works without a terminal for the user who needs one: %q %v", out, err)
	}
}
