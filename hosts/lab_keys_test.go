//go:build lab

package hosts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

func TestLabKeys(t *testing.T) {
	s := site(t)
	t.Run("passphrase asked once", func(t *testing.T) {
		person := &asked{answers: []string{s.Passphrase}}
		n := hosts.NewNetwork(person.ask)
		for _, port := range []int{mainPort, closedPort} {
			c := s.box("ops", port)
			c.KeyFiles = []string{s.key("locked")}
			connects(t, openIn(t, n, c), "ops")
		}
		person.times(t, 1, s.key("locked"))
	})
	t.Run("wrong passphrase first", func(t *testing.T) {
		person := &asked{answers: []string{"wrong", s.Passphrase}}
		c := s.box("ops", mainPort)
		c.KeyFiles = []string{s.key("locked")}
		connects(t, openIn(t, hosts.NewNetwork(person.ask), c), "ops")
		person.times(t, 2, s.key("locked"))
	})
	t.Run("rsa with sha-2", func(t *testing.T) {
		c := s.box("ops", mainPort)
		c.KeyFiles = []string{s.key("rsa")}
		connects(t, open(t, c), "ops")
	})
	t.Run("refused key", func(t *testing.T) {
		c := s.box("ops", mainPort)
		c.KeyFiles = []string{s.key("other")}
		refuses(t, open(t, c), hosts.ErrAuth, "ops", s.key("other"))
	})
	t.Run("agent", func(t *testing.T) {
		c := s.box("ops", mainPort)
		c.KeyFiles, c.Agent = nil, agentWith(t, s.key("other"), s.key("rsa"))
		connects(t, open(t, c), "ops")
	})
	t.Run("agent holds what the public file names", func(t *testing.T) {
		c := s.box("ops", mainPort)
		c.Agent = agentWith(t, s.key("other"), s.key("certified"), s.key("user-ca"), s.key("host-ca"), s.key("rsa"))
		c.KeyFiles = []string{s.key("rsa.pub")} // MaxAuthTries is 3: the others would use it up
		connects(t, open(t, c), "ops")
	})
}

// agentWith starts OpenSSH's agent with keys and returns its socket.
func agentWith(t *testing.T, keys ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab-agent-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "agent")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	eventually(t, "the agent listens", 10*time.Second, func() (string, bool) {
		_, err := os.Stat(socket)
		return fmt.Sprint(err), err == nil
	})
	add := exec.Command("ssh-add", append([]string{"-q"}, keys...)...)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add: %v: %s", err, out)
	}
	return socket
}

func TestLabUserCertificates(t *testing.T) {
	s := site(t)
	for _, test := range []struct {
		name  string
		set   func(*hosts.Config)
		works bool
	}{
		{"beside the key", func(c *hosts.Config) { c.KeyFiles = []string{s.key("certified")} }, true},
		{"of an RSA key", func(c *hosts.Config) { c.KeyFiles = []string{s.key("certified-rsa")} }, true},
		{"named", func(c *hosts.Config) {
			c.KeyFiles = []string{copied(t, s.key("certified-rsa"))}
			c.CertificateFiles = []string{s.key("certified-rsa-cert.pub")}
		}, true},
		{"of a key in the agent", func(c *hosts.Config) {
			c.KeyFiles, c.Agent = nil, agentWith(t, copied(t, s.key("certified-rsa")))
			c.CertificateFiles = []string{s.key("certified-rsa-cert.pub")}
		}, true},
		{"none", func(c *hosts.Config) { c.KeyFiles = []string{copied(t, s.key("certified"))} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := s.box("ops", certificatesPort)
			test.set(&c)
			if h := open(t, c); test.works {
				connects(t, h, "ops")
			} else {
				refuses(t, h, hosts.ErrAuth)
			}
		})
	}
}

// copied is a key without what lies beside it.
func copied(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "key", string(text))
}
