//go:build lab

package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

// connects checks that a host is reached, and by the user named.
func connects(t *testing.T, h *hosts.Host, user string) {
	t.Helper()
	out, err := h.Run(within(t, time.Minute), hosts.Cmd{Argv: []string{"id", "-un"}})
	if err != nil || strings.TrimSpace(string(out)) != user {
		t.Errorf("%s: id = %q, %v, want %s", h.Name(), out, err, user)
	}
}

// refuses checks that a host is not reached, and that the error is of a kind and contains pieces.
func refuses(t *testing.T, h *hosts.Host, kind error, pieces ...string) {
	t.Helper()
	err := h.Connect(within(t, time.Minute))
	if !errors.Is(err, kind) {
		t.Errorf("%s: Connect = %v, want %v", h.Name(), err, kind)
		return
	}
	for _, piece := range pieces {
		if !strings.Contains(err.Error(), piece) {
			t.Errorf("the error does not name %q: %v", piece, err)
		}
	}
}

// becomesRoot checks that sudo works.
func becomesRoot(t *testing.T, h *hosts.Host) {
	t.Helper()
	out, err := h.Run(within(t, time.Minute), hosts.Cmd{Argv: []string{"id", "-u"}, Sudo: true})
	if err != nil || string(out) != "0\n" {
		t.Errorf("%s: id by sudo = %q, %v", h.Name(), out, err)
	}
}

func TestLabSudoRefuses(t *testing.T) {
	s := site(t)
	for _, test := range []struct {
		name, user, password string
		kind                 error
	}{
		{"wrong password", "pass", "not the password", hosts.ErrSudoPassword},
		{"wrong password on a terminal", "ptypass", "not the password", hosts.ErrSudoPassword},
		{"not in sudoers", "nosudo", s.Passwords["nosudo"], hosts.ErrSudoers},
		{"not in sudoers and wrong", "nosudo", "not the password", hosts.ErrSudoPassword},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := s.box(test.user, mainPort)
			c.SudoPasswordFile = secretFile(t, test.password)
			_, err := open(t, c).Run(within(t, time.Minute), hosts.Cmd{Argv: []string{"id", "-u"}, Sudo: true})
			if !errors.Is(err, test.kind) {
				t.Errorf("Run = %v, want %v", err, test.kind)
			}
			if err != nil && strings.Contains(err.Error(), test.password) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
	t.Run("nobody to ask", func(t *testing.T) {
		_, err := open(t, s.box("pass", mainPort)).Run(within(t, time.Minute), hosts.Cmd{Argv: []string{"id", "-u"}, Sudo: true})
		if !errors.Is(err, hosts.ErrNobody) {
			t.Errorf("Run = %v, want %v", err, hosts.ErrNobody)
		}
	})
}

func TestLabSudoPasswordAskedOnce(t *testing.T) {
	s := site(t)
	for name, answers := range map[string][]string{
		"right at once": {s.Passwords["pass"]},
		"wrong first":   {"a slip of the finger", s.Passwords["pass"]},
	} {
		t.Run(name, func(t *testing.T) {
			person := &asked{answers: answers}
			n := hosts.NewNetwork(person.ask)
			one, two := s.box("pass", mainPort), s.box("pass", closedPort)
			one.Name, two.Name = "one", "two"
			becomesRoot(t, openIn(t, n, one))
			becomesRoot(t, openIn(t, n, two))
			person.times(t, len(answers), "sudo password")
			for i, q := range person.questions {
				if (q.Again != nil) != (i > 0) {
					t.Errorf("question %d: again because of %v", i, q.Again)
				}
			}
		})
	}
}

// While sudo reads the password, no list of processes shows it.
func TestLabSudoPasswordIsNotShown(t *testing.T) {
	s := site(t)
	c := s.box("pass", mainPort)
	c.SudoPasswordFile = secretFile(t, s.Passwords["pass"])
	out, err := open(t, c).Script(within(t, time.Minute), hosts.Script{Sudo: true, Text: `
for p in /proc/[0-9]*; do tr '\0' ' ' <"$p/cmdline"; tr '\0' '\n' <"$p/environ"; done 2>/dev/null
journalctl --no-pager -q 2>/dev/null; true`})
	if err != nil {
		t.Fatal(err)
	}
	secret, _, _ := strings.Cut(s.Passwords["pass"], " ")
	if !strings.Contains(string(out), "SUDO_UID=") || strings.Contains(string(out), secret) {
		t.Errorf("processes or journal show the password, or nothing of sudo (%d bytes)", len(out))
	}
}

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

func TestLabHostKeys(t *testing.T) {
	s := site(t)
	box, other := s.Hosts["box"], s.Hosts["cp-1"].Key
	read := func(name string) string {
		text, err := os.ReadFile(s.key(name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	plain := box.Address + " " + box.Key
	authority := "@cert-authority [" + box.Address + "]:*," + box.Address + " " + read("host-ca.pub")
	for _, test := range []struct {
		name, known string
		port        int
		kind        error // nil: it connects
		says        string
	}{
		{"plain", plain, mainPort, nil, ""},
		{"among other types of key", box.Address + " " + read("rsa.pub") + "\n" + plain, mainPort, nil, ""},
		{"hashed", hashed(t, box, plain), mainPort, nil, ""},
		{"hashed, another port", hashed(t, box, "["+box.Address+"]:2201 "+box.Key), closedPort, nil, ""},
		{"known under another port only", "[" + box.Address + "]:2201 " + box.Key, mainPort, hosts.ErrHostKeyUnknown, box.Address},
		{"changed", "# comment\n" + box.Address + " " + other, mainPort, hosts.ErrHostKeyChanged, "known:2"},
		{"changed, hashed", hashed(t, box, box.Address+" "+other), mainPort, hosts.ErrHostKeyChanged, "known:1"},
		{"unknown", "192.0.2.1 " + other, mainPort, hosts.ErrHostKeyUnknown, "SHA256:"},
		{"a bad line beside", "this is no entry\n" + plain, mainPort, nil, ""},
		{"certificate", authority, certificatesPort, nil, ""},
		{"certificate of another authority", "@cert-authority * " + read("user-ca.pub"), certificatesPort, hosts.ErrHostKeyChanged, "no authorities"},
		{"revoked", plain + "\n@revoked * " + box.Key, mainPort, hosts.ErrHostKeyChanged, "known:2"},
		{"revoked authority", authority + "\n@revoked * " + read("host-ca.pub"), certificatesPort, hosts.ErrHostKeyChanged, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := s.box("ops", test.port)
			if c.KnownHostsFiles = []string{writeFile(t, "known", test.known+"\n")}; test.port == certificatesPort {
				c.KeyFiles = []string{s.key("certified")}
			}
			if h := open(t, c); test.kind == nil {
				connects(t, h, "ops")
			} else {
				refuses(t, h, test.kind, test.says)
			}
		})
	}
}

// hashed hides the names of a known_hosts file by OpenSSH's own tool.
func hashed(t *testing.T, box labHost, known string) string {
	t.Helper()
	out := box.on(t, `f=$(mktemp) && printf '%s\n' "$1" >"$f" && ssh-keygen -q -H -f "$f" >/dev/null 2>&1 && cat "$f" && rm "$f" "$f.old"`, known)
	if !strings.HasPrefix(out, "|1|") {
		t.Fatalf("ssh-keygen -H made %q", out)
	}
	return strings.TrimSpace(out)
}

func TestLabAcceptNew(t *testing.T) {
	s := site(t)
	box := s.Hosts["box"]
	known := writeFile(t, "known", "# no end of line")
	c := s.box("ops", mainPort)
	c.KnownHostsFiles, c.AcceptNew = []string{known}, true
	connects(t, open(t, c), "ops")
	text, err := os.ReadFile(known)
	if err != nil || !strings.Contains(string(text), box.Address+" "+box.Key) {
		t.Fatalf("recorded was %q, %v", text, err)
	}
	c.AcceptNew = false
	connects(t, open(t, c), "ops")
	c.AcceptNew = true
	wrong := strings.Replace(string(text), box.Key, s.Hosts["cp-1"].Key, 1)
	if err := os.WriteFile(known, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, open(t, c), hosts.ErrHostKeyChanged)
	if text, _ := os.ReadFile(known); string(text) != wrong {
		t.Errorf("a changed key changed the file to %q", text)
	}
}

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

// sshd drops connections at random from the third on that has not signed in yet (MaxStartups 3:50:10).
func TestLabManyConnections(t *testing.T) {
	s := site(t)
	n := hosts.NewNetwork(nil)
	const many = 12
	errs := make(chan error, many)
	for range many {
		h := openIn(t, n, s.box("ops", mainPort))
		go func() { errs <- h.Connect(context.WithoutCancel(t.Context())) }()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
