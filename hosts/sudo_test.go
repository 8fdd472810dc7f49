package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const password = `p'a"ss $w \ord!`

// sudoServer is a server whose sudo is as the files say; see testdata/bin/sudo.
func sudoServer(t *testing.T, files map[string]string) *server {
	t.Helper()
	s := startServer(t, nil)
	s.fakes(t, files)
	return s
}

func (s *server) fakes(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.fake, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// heard gives the passwords that sudo was told, in order.
func (s *server) heard() []string { return s.noted("sudo-heard") }

// noted gives the lines that a stand-in wrote down.
func (s *server) noted(name string) []string {
	text, _ := os.ReadFile(filepath.Join(s.fake, name))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// sudoHost is a host of a network.
func (s *server) sudoHost(t *testing.T, n *Network, change func(*Config)) *Host {
	t.Helper()
	h := s.host(t, change)
	h.tune.sudoSilence = 50 * time.Millisecond
	if n != nil {
		h.net = n
	}
	return h
}

// passwordIn writes a file with a password.
func passwordIn(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// questions gives what was asked, and why again.
func (p *person) questions() (all []string) {
	for i, what := range p.asked {
		if p.again[i] != nil {
			what += "; " + p.again[i].Error()
		}
		all = append(all, what)
	}
	return all
}

// sudoWays is every way in which a host lets its user become root.
var sudoWays = map[string]map[string]string{
	"free":                      nil,
	"password":                  {"sudo-password": password},
	"password by PAM":           {"sudo-password": password, "sudo-pam": ""},
	"terminal":                  {"sudo-tty": ""},
	"terminal and password":     {"sudo-password": password, "sudo-tty": ""},
	"terminal and PAM's prompt": {"sudo-password": password, "sudo-tty": "", "sudo-pam": ""},
}

func eachSudoWay(t *testing.T, test func(t *testing.T, s *server, h *Host)) {
	for name, files := range sudoWays {
		t.Run(name, func(t *testing.T) {
			s := sudoServer(t, files)
			test(t, s, s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password+"\nnot this\n") }))
		})
	}
}

func TestSudoWays(t *testing.T) {
	eachSudoWay(t, func(t *testing.T, s *server, h *Host) {
		in := strings.Repeat("in\x00put\n", 50_000)
		for range 2 { // the first one has to find the way, and must not lose its input over it
			out, err := h.Run(t.Context(), Cmd{Argv: []string{"cat"}, Stdin: strings.NewReader(in), Sudo: true})
			if err != nil || string(out) != in {
				t.Fatalf("cat: %d bytes, %v, want the %d of standard input", len(out), err, len(in))
			}
		}
		out, err := h.Script(t.Context(), Script{Text: `echo "$SUDO_UID $HOME $*"; echo why >&2; exit 3`, Args: []string{"a", "b"}, Sudo: true})
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Code != 3 || exit.Stderr != "why\n" {
			t.Errorf("got %#v, want status 3 and nothing of sudo's words", err)
		}
		if want := fmt.Sprintf("%d /root a b\n", os.Getuid()); string(out) != want {
			t.Errorf("got %q, want %q", out, want)
		}
		for _, word := range s.heard() {
			if word != password && word != "" {
				t.Errorf("sudo was told %q", word)
			}
		}
	})
}

func TestSudoIsAskedForTheWayOnce(t *testing.T) {
	s := sudoServer(t, sudoWays["terminal and password"])
	h := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password) })
	for range 3 {
		if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true}); err != nil {
			t.Fatal(err)
		}
	}
	var how []string
	for _, call := range s.noted("sudo-calls") {
		flags, _, _ := strings.Cut(call, " -p ")
		how = append(how, flags)
	}
	if want := []string{"-n", "-n", "-S -k", "-S -k", "-S -k"}; !slices.Equal(how, want) {
		t.Errorf("sudo was called with %q, want %q", how, want)
	}
	if !h.root.proven {
		t.Error("standard input still waits for sudo to let the script through")
	}
}

func TestSudoPasswordIsNotShown(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password})
	h := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password) })
	out, err := h.Script(t.Context(), Script{Text: `cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; cat; set`, Sudo: true})
	if err != nil || strings.Contains(string(out), password) || len(out) == 0 {
		t.Errorf("%d bytes of processes and variables show the password, or %v", len(out), err)
	}
}

// Nobody promises that sudo, or what PAM runs, does not repeat it.
func TestSudoPasswordThatIsRepeated(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password, "sudo-parrot": ""})
	h := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password) })
	_, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true})
	wantError(t, err, ErrSudo, "who is")
	if strings.Contains(err.Error(), password) {
		t.Errorf("shown: %v", err)
	}
}

// A sudo that stops asking would hand the password to the script.
func TestSudoPasswordOnlyWhenAsked(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password})
	h := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password) })
	become := func() string {
		out, err := h.Script(t.Context(), Script{Text: "cat; echo rest", Sudo: true})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	become()
	s.flag(t, "sudo-password", false)
	if out := become(); out != "rest\n" {
		t.Errorf("the script read %q", out)
	}
	if got := s.heard(); len(got) != 1 {
		t.Errorf("the password was told %d times, want once", len(got))
	}
}

func TestSudoRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		answer string
		kind   error
		pieces []string
		told   int // passwords
	}{
		"wrong password": {
			map[string]string{"sudo-password": password}, "wrong", ErrSudoPassword,
			[]string{"sudo on cp1 refuses the password of ops that ", "not tried again in this run"}, 1,
		},
		"wrong password by PAM": {
			map[string]string{"sudo-password": password, "sudo-pam": ""}, "wrong", ErrSudoPassword, nil, 1,
		},
		"wrong password on a terminal": {
			map[string]string{"sudo-password": password, "sudo-tty": ""}, "wrong", ErrSudoPassword, nil, 1,
		},
		"not in sudoers": {
			map[string]string{"sudo-password": password, "sudo-outsider": ""}, password, ErrSudoers,
			[]string{"sudo on cp1 does not let ops become root: ops is not in the sudoers file."}, 1,
		},
		"not in sudoers, wrong password": {
			map[string]string{"sudo-password": password, "sudo-outsider": ""}, "wrong", ErrSudoPassword, nil, 1,
		},
		"not in sudoers, not asked": {
			map[string]string{"sudo-outsider": ""}, "", ErrSudoers, nil, 0,
		},
		"nobody to ask": {
			map[string]string{"sudo-password": password}, "", ErrNobody,
			[]string{"sudo on cp1 wants the password of ops", "run on a terminal, or set ssh.sudoPasswordFile"}, 0,
		},
		"broken": {
			map[string]string{"sudo-broken": "sudo: account validation failure, is your account locked?\n"}, "", ErrSudo,
			[]string{"sudo on cp1 does not work: exit status 1: sudo: account validation failure"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sudoServer(t, c.files)
			h := s.sudoHost(t, nil, func(cfg *Config) {
				if c.answer != "" {
					cfg.SudoPasswordFile = passwordIn(t, c.answer)
				}
			})
			for range 3 {
				_, err := h.Run(t.Context(), Cmd{Argv: []string{"id"}, Stdin: strings.NewReader("x"), Sudo: true})
				if !errors.Is(err, ErrSudo) || !errors.Is(err, c.kind) {
					t.Errorf("got %v, want ErrSudo and %v", err, c.kind)
				}
			}
			_, err := h.Run(t.Context(), Cmd{Argv: []string{"id"}, Sudo: true})
			for _, piece := range c.pieces {
				if err == nil || !strings.Contains(err.Error(), piece) {
					t.Errorf("got %v, want it to say %q", err, piece)
				}
			}
			if err != nil && (c.answer != "" && strings.Contains(err.Error(), c.answer+"\n") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the error shows the password, or more than a line: %v", err)
			}
			told := 0
			for _, word := range s.heard() {
				if word == "wrong" {
					told++
				}
			}
			if c.answer == "wrong" && told != c.told {
				t.Errorf("sudo was told %d wrong passwords, want %d", told, c.told)
			}
			if _, err := h.Run(t.Context(), Cmd{Argv: []string{"id"}}); err != nil {
				t.Errorf("without sudo: %v", err)
			}
		})
	}
}

func TestSudoIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		programs, want string
		files          map[string]string
	}{
		"sudo":   {"sh env", "there is no sudo on cp1 that ops would find: install it", nil},
		"script": {"sh env id sed cat sudo", `put "Defaults:ops !requiretty" into sudoers`, map[string]string{"sudo-tty": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sudoServer(t, c.files)
			bin := t.TempDir()
			for _, program := range strings.Fields(c.programs) {
				real := "/usr/bin/" + program
				if program == "sudo" {
					real, _ = filepath.Abs("testdata/bin/sudo")
				}
				if err := os.Symlink(real, filepath.Join(bin, program)); err != nil {
					t.Fatal(err)
				}
			}
			s.shell = []string{"/bin/sh", "-c", "PATH=" + bin + `; eval "$0"`}
			_, err := s.sudoHost(t, nil, nil).Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true})
			wantError(t, err, ErrSudo, c.want)
		})
	}
}

func TestSudoThatNeverAsks(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password, "sudo-slow": ""})
	h := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password) })
	h.tune.sudoLimit = 100 * time.Millisecond
	_, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true})
	wantError(t, err, ErrSudo, "neither asks for the password nor begins for 100ms")
}

func TestSudoPasswordFile(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password})
	open := passwordIn(t, password)
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		open:                         open + " is open to others (mode 0640): chmod 600 " + open,
		passwordIn(t, "\nsecond\n"):  "holds no password on its first line",
		filepath.Join(s.dir, "none"): "no such file",
	} {
		_, err := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = file }).Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestRootNeedsNoSudo(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-outsider": ""})
	_, err := s.sudoHost(t, nil, func(c *Config) { c.User = "root" }).Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true})
	if os.Getuid() == 0 && err != nil || os.Getuid() != 0 && !errors.Is(err, ErrNotRoot) {
		t.Errorf("got %v", err)
	}
	if got := s.noted("sudo-calls"); got[0] != "" {
		t.Errorf("sudo was called: %v", got)
	}
}

// become runs something as root on every host at once.
func become(t *testing.T, all []*Host) []error {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, h := range all {
		wait.Go(func() { _, errs[i] = h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true}) })
	}
	wait.Wait()
	return errs
}

func TestSudoPasswordOfManyHosts(t *testing.T) {
	const many = 6
	const ask, refused = "sudo password of ops", "; sudo on cp1 refuses the password of ops"
	for name, c := range map[string]struct{ answers, asked []string }{
		"right at once": {[]string{password}, []string{ask}},
		"wrong first":   {[]string{"slip", password}, []string{ask, ask + refused}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sudoServer(t, map[string]string{"sudo-password": password})
			someone := &person{answers: c.answers}
			n := NewNetwork(someone.ask)
			var all []*Host
			for range many {
				all = append(all, s.sudoHost(t, n, nil))
			}
			for _, err := range become(t, append(all, all...)) {
				if err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(c.asked, someone.questions()); diff != "" {
				t.Errorf("questions (-want +got)\n%s", diff)
			}
			if got := strings.Count(strings.Join(s.heard(), "\n"), "slip"); got != len(c.answers)-1 {
				t.Errorf("the wrong password was told %d times, want %d", got, len(c.answers)-1)
			}
		})
	}
}

// An account that many hosts share is locked by a wrong password that each of them is told.
func TestWrongPasswordIsTriedOnOneHost(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password})
	n := NewNetwork(nil)
	file := passwordIn(t, "slip")
	var all []*Host
	for range 5 {
		all = append(all, s.sudoHost(t, n, func(c *Config) { c.SudoPasswordFile = file }))
	}
	for _, err := range become(t, all) {
		if !errors.Is(err, ErrSudoPassword) {
			t.Errorf("got %v, want ErrSudoPassword", err)
		}
	}
	if got := s.heard(); len(got) != 1 {
		t.Errorf("sudo was told %q, want the wrong password once", got)
	}
}

func TestSudoPasswordOfOneHostDiffers(t *testing.T) {
	first := sudoServer(t, map[string]string{"sudo-password": password})
	other := sudoServer(t, map[string]string{"sudo-password": "other"})
	someone := &person{answers: []string{password, "other"}}
	n := NewNetwork(someone.ask)
	hosts := []*Host{first.sudoHost(t, n, nil), other.sudoHost(t, n, func(c *Config) { c.Name = "cp2" }), first.sudoHost(t, n, nil)}
	for _, h := range append(hosts, hosts...) {
		if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"sudo password of ops", "sudo password of ops; sudo on cp2 refuses the password of ops"}
	if diff := cmp.Diff(want, someone.questions()); diff != "" {
		t.Errorf("questions (-want +got)\n%s", diff)
	}
}

func TestSudoPasswordIsTriedTwice(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password})
	someone := &person{answers: []string{"slip", "slip again", password}}
	h := s.sudoHost(t, NewNetwork(someone.ask), nil)
	for range 3 {
		_, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true})
		wantError(t, err, ErrSudoPassword, "refuses the password of ops")
	}
	if got := s.heard(); !slices.Equal(got, []string{"slip", "slip again"}) {
		t.Errorf("sudo was told %q", got)
	}
}

func TestSudoPasswordThatChanges(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password})
	someone := &person{answers: []string{password, "new"}}
	h := s.sudoHost(t, NewNetwork(someone.ask), nil)
	for _, now := range []string{password, "new", "new"} {
		s.fakes(t, map[string]string{"sudo-password": now})
		if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true}); err != nil {
			t.Fatal(err)
		}
	}
	if len(someone.asked) != 2 {
		t.Errorf("asked %q, want twice", someone.asked)
	}
}

// The limit of a request is not for the person who is asked: who answers after it has passed is in time.
func TestSudoQuestionIsNotLimited(t *testing.T) {
	s := sudoServer(t, map[string]string{"sudo-password": password})
	h := s.sudoHost(t, NewNetwork(func(ctx context.Context, _ Question) (Secret, error) {
		if end, limited := ctx.Deadline(); limited {
			t.Errorf("the question has a limit: %v", end)
		}
		return NewSecret(password), nil
	}), nil)
	if _, err := h.Run(context.WithoutCancel(t.Context()), Cmd{Argv: []string{"true"}, Sudo: true, Timeout: time.Minute}); err != nil {
		t.Error(err)
	}
}

// A site may greet with words that sudo says as well.
func TestSudoWordsInAGreeting(t *testing.T) {
	s := startServer(t, func(s *server) {
		s.shell = []string{"/bin/sh", "-c", "echo '2 incorrect password attempts since your last login' >&2; exit 1"}
	})
	_, err := s.host(t, nil).Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true})
	wantError(t, err, ErrSudo, "exit status 1: 2 incorrect password attempts since")
	if errors.Is(err, ErrSudoPassword) {
		t.Errorf("%v: no password was told", err)
	}
}
