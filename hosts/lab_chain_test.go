//go:build lab

package hosts_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

// config writes a configuration of ssh by which the name "production" is the way to cp-1.
func (s *labSite) config(t *testing.T) string {
	part := writeFile(t, "site.conf", fmt.Sprintf(`
Host production
	HostName %s
	User deploy
	ProxyJump first,jump@second
Host first
	HostName %s
	User jump
Host second
	HostName %s
`, s.Hosts["cp-1"].Address, s.Hosts["bastion-1"].Address, s.Hosts["bastion-2"].Address))
	return writeFile(t, "config", fmt.Sprintf(`
Include %s/*.conf
Match final host 10.77.0.*
	IdentityFile %s
	IdentitiesOnly yes
	IdentityAgent none
	UserKnownHostsFile %s
`, filepath.Dir(part), s.key("plain"), s.KnownHosts))
}

func TestLabSSHConfig(t *testing.T) {
	s := site(t)
	config := s.config(t)
	h := open(t, hosts.Config{Address: "production", SSHConfig: config, Sudo: true, SudoPasswordFile: secretFile(t, s.Passwords["deploy"])})
	connects(t, h, "deploy")
	becomesRoot(t, h)
	t.Run("what is said here wins", func(t *testing.T) {
		refuses(t, open(t, hosts.Config{Address: "production", SSHConfig: config, User: "nobody-of-that-name"}), hosts.ErrAuth, "nobody-of-that-name")
	})
}

func TestLabChain(t *testing.T) {
	s := site(t)
	n := hosts.NewNetwork(nil)
	cp := openIn(t, n, s.node(t, "cp-1", s.Hosts["cp-1"].Address))
	worker := openIn(t, n, s.node(t, "worker-1", s.Hosts["worker-1"].Address6))
	for _, h := range []*hosts.Host{cp, worker} {
		connects(t, h, "deploy")
		becomesRoot(t, h)
	}
	for _, hop := range []string{"bastion-1", "bastion-2"} {
		if got := s.Hosts[hop].on(t, "pgrep -c -f '^sshd: jump$' || true"); got != "1\n" {
			t.Errorf("%s has %q connections of ours, want one", hop, got)
		}
	}
	if from := s.Hosts["worker-1"].on(t, "ss -Htn state established sport = :22"); !strings.Contains(from, s.Hosts["bastion-2"].Address6) {
		t.Errorf("worker-1 is not reached by IPv6: %s", from)
	}
}

// Each door is open to the hop before it only, or the test above would prove nothing.
func TestLabChainIsNeeded(t *testing.T) {
	s := site(t)
	whole := s.node(t, "cp-1", s.Hosts["cp-1"].Address)
	for name, jump := range map[string][]hosts.Config{"directly": nil, "past the second": whole.Jump[:1], "past the first": whole.Jump[1:]} {
		t.Run(name, func(t *testing.T) {
			c := whole
			c.Jump = jump
			if err := open(t, c).Connect(within(t, time.Minute)); err == nil {
				t.Error("the host was reached")
			}
		})
	}
}

func TestLabChainErrorsNameTheHop(t *testing.T) {
	s := site(t)
	for _, test := range []struct {
		name string
		set  func(*hosts.Config)
		kind error
		says string
	}{
		{"key of a hop unknown", func(c *hosts.Config) {
			c.Jump[1].KnownHostsFiles = []string{writeFile(t, "known", "")}
		}, hosts.ErrHostKeyUnknown, "bastion-2"},
		{"key of a hop refused", func(c *hosts.Config) { c.Jump[0].KeyFiles = []string{s.key("other")} }, hosts.ErrAuth, "bastion-1"},
		{"no way on", func(c *hosts.Config) { c.Address = s.Hosts["box"].Address }, hosts.ErrForwardingRefused, "bastion-2"},
		{"nobody there", func(c *hosts.Config) { c.Jump[0].Port = 2299 }, hosts.ErrUnreachable, "bastion-1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := s.node(t, "cp-1", s.Hosts["cp-1"].Address)
			test.set(&c)
			refuses(t, open(t, c), test.kind, test.says)
		})
	}
}
