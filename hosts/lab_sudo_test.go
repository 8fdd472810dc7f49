//go:build lab

package hosts_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

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
