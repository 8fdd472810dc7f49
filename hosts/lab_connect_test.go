//go:build lab

package hosts_test

import (
	"context"
	"errors"
	"os"
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
