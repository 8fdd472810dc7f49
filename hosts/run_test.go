package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	for _, sudo := range []bool{false, true} {
		out, err := h.Run(t.Context(), Cmd{Argv: []string{"printf", "%s|", "a b", "", "'\"$x`!\\", "ü\n-"}, Sudo: sudo})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("a b||'\"$x`!\\|ü\n-|", string(out)); diff != "" {
			t.Errorf("sudo=%v: (-want +got)\n%s", sudo, diff)
		}
	}
	out, err := h.Run(t.Context(), Cmd{Argv: []string{"cat"}, Stdin: strings.NewReader("in\x00put")})
	if err != nil || string(out) != "in\x00put" {
		t.Errorf("stdin: got %q, %v", out, err)
	}
	if got := s.dials.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

func TestRunFailure(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	out, err := h.Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "echo out; echo first >&2; echo second >&2; exit 3"}})
	var got *ExitError
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want an *ExitError", err)
	}
	want := &ExitError{Host: "cp1", Command: "sh -c echo out; echo first >&2; echo second >&2; exit 3", Code: 3, Stderr: "first\nsecond\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if string(out) != "out\n" {
		t.Errorf("output %q, want what it had written", out)
	}
	if _, err = h.Run(t.Context(), Cmd{Argv: []string{"no-such-command"}}); exitCode(err) != 127 {
		t.Errorf("missing command: got %v, want status 127", err)
	}
	if _, err = h.Run(t.Context(), Cmd{Argv: []string{"echo", "a\x00b"}}); !errors.Is(err, errNUL) {
		t.Errorf("NUL: got %v", err)
	}
}

func TestRunKilled(t *testing.T) {
	s := startServer(t, func(s *server) { s.shell = []string{"/bin/sh", "-c", `eval "exec $0"`} })
	_, err := s.host(t, nil).Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "kill -KILL $$"}})
	var got *ExitError
	if !errors.As(err, &got) || got.Signal != "KILL" {
		t.Errorf("got %v, want SIGKILL", err)
	}
}

func TestScript(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	out, err := h.Script(t.Context(), Script{Text: `printf '%s,' "$#" "$@"; umask; pwd; cat; echo "$0"`, Args: []string{"x y", "it's"}, Sudo: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := "2,x y,it's,0022\n/\n/bin/sh\n"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
	long := strings.Repeat("x", 300<<10) // more than one argument may hold on Linux
	out, err = h.Script(t.Context(), Script{Text: `printf %s "$1" | wc -c`, Args: []string{long}})
	if err != nil || strings.TrimSpace(string(out)) != "307200" {
		t.Errorf("long argument: got %q, %v", out, err)
	}
	out, err = h.Script(t.Context(), Script{Text: `tr '\0' '\n' </proc/$$/cmdline`, Args: []string{"sesame"}})
	if err != nil || strings.Contains(string(out), "sesame") {
		t.Errorf("the process list shows an argument: %q, %v", out, err)
	}
}

func TestNoiseIsDropped(t *testing.T) {
	s := startServer(t, func(s *server) {
		s.shell = []string{"/bin/sh", "-c", `printf 'Welcome! (no newline)'; printf 'warning, Password: ' >&2; eval "$0"`}
	})
	s.fakes(t, map[string]string{"sudo-password": password})
	h := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password) })
	for _, sudo := range []bool{false, true} {
		out, err := h.Script(t.Context(), Script{Text: "echo clean; echo why >&2; exit 2", Sudo: sudo})
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Stderr != "why\n" || string(out) != "clean\n" {
			t.Errorf("sudo=%v: got %q, %#v", sudo, out, err)
		}
	}
}

// hostile is what a login's files, or a site's, may set. BASH_ENV and ENV are files that shells read.
const hostile = `LD_PRELOAD=/absent.so GREP_OPTIONS=--color=always KUBECONFIG=/etc/kubeconfig TMPDIR=/absent TMOUT=1 IFS=ab
CDPATH=/etc POSIXLY_CORRECT=1 LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8 PATH=$PATH:/absent HOME=/home/ops USER=ops LOGNAME=ops
BASH_ENV=$FAKE/rc ENV=$FAKE/rc SUDO_UID=7 "BASH_FUNC_cat%%=() { echo function; }"`

func TestEnvironmentIsClean(t *testing.T) {
	s := startServer(t, func(s *server) {
		s.shell = []string{"/bin/bash", "-c", `umask 077; exec env ` + strings.ReplaceAll(hostile, "\n", " ") + ` /bin/sh -c "$0" 2>/dev/null`}
	})
	s.fakes(t, map[string]string{"rc": "echo rc; echo rc >&2; PATH=/absent\n"})
	h := s.host(t, nil)
	fixed := []string{"FAKE=" + s.fake, "LC_ALL=C", "PATH=" + h.tune.searchPath, "PWD=/", "umask=0022"}
	uid := fmt.Sprint(os.Getuid())
	for sudo, more := range map[bool][]string{
		false: {"HOME=/home/ops", "LOGNAME=ops", "USER=ops"},
		true:  {"HOME=/root", "LOGNAME=root", "USER=root", "SUDO_GID=" + fmt.Sprint(os.Getgid()), "SUDO_UID=" + uid},
	} {
		out, err := h.Script(t.Context(), Script{Text: "env; echo umask=$(umask)", Sudo: sudo})
		if err != nil {
			t.Fatal(err)
		}
		want := append(slices.Clone(fixed), more...)
		got := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(v string) bool {
			return strings.HasPrefix(v, "_=") || strings.HasPrefix(v, "OLDPWD=") || strings.HasPrefix(v, "SHLVL=") // the shell's own
		})
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sudo=%v: environment (-want +got)\n%s", sudo, diff)
		}
	}
}

// loginShells are those of this machine, with the file that each of them reads whenever it starts. A shell that is not
// there cannot be tried; sh and bash always are.
func loginShells(t *testing.T) map[string]string {
	t.Helper()
	there := map[string]string{}
	for name, rc := range map[string]string{
		"sh": "", "bash": "", "dash": "", "ksh": "",
		"zsh": ".zshenv", "fish": ".config/fish/config.fish", "tcsh": ".tcshrc", "csh": ".cshrc",
	} {
		path, err := exec.LookPath(name)
		if err != nil && (name == "sh" || name == "bash") {
			t.Fatal(err)
		}
		if err == nil {
			there[path] = rc
		}
	}
	return there
}

func TestLoginShells(t *testing.T) {
	for shell, rc := range loginShells(t) {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			home := t.TempDir()
			if rc != "" {
				file := filepath.Join(home, rc)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte("echo noise\necho Password:\nalias sh false\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := startServer(t, func(s *server) {
				s.shell = []string{"env", "HOME=" + home, shell, "-c"}
			})
			s.fakes(t, sudoWays["terminal and password"])
			h := s.sudoHost(t, nil, func(c *Config) { c.SudoPasswordFile = passwordIn(t, password) })
			want := strings.Join(awkwardWords, "|") + "|in!\\'put"
			for _, sudo := range []bool{false, true} {
				out, err := h.Run(t.Context(), Cmd{
					Argv: append([]string{"sh", "-c", `printf '%s|' "$@"; cat`, "sh"}, awkwardWords...), Stdin: strings.NewReader(`in!\'put`), Sudo: sudo,
				})
				if err != nil || string(out) != want {
					t.Errorf("sudo=%v: got %q, %v, want %q", sudo, out, err, want)
				}
			}
		})
	}
}

var awkwardWords = []string{"", "a b", "'", `"`, `\`, "$HOME", "`id`", "!!", "~", "*", "a\nb", "%s", "ü", "#", "{a,b}", "(id)", "^"}

func TestLoginShellRefuses(t *testing.T) {
	s := startServer(t, func(s *server) { s.shell = []string{"/bin/sh", "-c", "echo This account is not available; exit 1"} })
	_, err := s.host(t, nil).Run(t.Context(), Cmd{Argv: []string{"id"}})
	if err == nil || !strings.Contains(err.Error(), "login shell") || !strings.Contains(err.Error(), "not available") {
		t.Errorf("got %v", err)
	}
}

// A child left in the background keeps stdout open; the command is over all the same.
func TestBackgroundChild(t *testing.T) {
	eachSudoWay(t, func(t *testing.T, _ *server, h *Host) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for _, sudo := range []bool{false, true} {
			out, err := h.Script(ctx, Script{Text: "echo before; sleep 60 & exit 0", Sudo: sudo})
			if err != nil || string(out) != "before\n" {
				t.Errorf("sudo=%v: got %q, %v", sudo, out, err)
			}
		}
	})
}

func TestLargeOutputIsWhole(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	out, err := h.Run(t.Context(), Cmd{Argv: []string{"head", "-c", "20000000", "/dev/zero"}})
	if err != nil || len(out) != 20000000 {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
}

func TestContextEndsRemoteProcess(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		s := startServer(t, nil)
		endsTree(t, s, s.host(t, nil), false)
	})
	eachSudoWay(t, func(t *testing.T, s *server, h *Host) { endsTree(t, s, h, true) })
}

// endsTree checks that with the context all processes of a script end, those as well that escape signals to the
// process group by a session of their own, and those that do not care about SIGTERM.
func endsTree(t *testing.T, s *server, h *Host, sudo bool) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("operator said stop")
	done := make(chan error)
	go func() {
		_, err := h.Script(ctx, Script{Sudo: sudo, Args: []string{s.dir}, Text: `
setsid sh -c 'trap "echo >$0/asked; exit" TERM; echo $$ >"$0/new.mild"; mv "$0/new.mild" "$0/mild.pid"; sleep 300 & wait' "$1" &
setsid sh -c 'trap "" TERM; echo $$ >"$0/new.deaf"; mv "$0/new.deaf" "$0/deaf.pid"; while :; do sleep 300; done' "$1"
:`})
		done <- err
	}()
	pids := func() []string {
		files, _ := filepath.Glob(filepath.Join(s.dir, "*.pid"))
		return files
	}
	waitFor(t, "the processes", func() bool { return len(pids()) == 2 })
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	for _, file := range pids() {
		pid, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the end of "+filepath.Base(file), func() bool { return ended(strings.TrimSpace(string(pid))) })
	}
	if _, err := os.Stat(filepath.Join(s.dir, "asked")); err != nil {
		t.Errorf("what would have ended by itself was not asked to: %v", err)
	}
}

// What begins only after its context is over is ended as well: root's processes hear no signals of sshd.
func TestContextEndsWhatHasNotBegun(t *testing.T) {
	s := startServer(t, func(s *server) { s.deaf = true })
	s.flag(t, "sudo-late", true)
	h := s.host(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("operator said stop")
	done := make(chan error)
	go func() {
		_, err := h.Script(ctx, Script{Text: "sleep 300", Sudo: true})
		done <- err
	}()
	waitFor(t, "sudo", func() bool { return s.noted("sudo-calls")[0] != "" })
	cancel(why)
	s.flag(t, "sudo-late", false)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	s.mu.Lock()
	group := s.procs[0].Pid
	s.mu.Unlock()
	waitFor(t, "the end of the program", func() bool { return syscall.Kill(-group, 0) == syscall.ESRCH })
}

// ended: no such process, or nothing left of it but its status.
func ended(pid string) bool {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	return err != nil || bytes.Contains(status, []byte("zombie"))
}

func TestTimeout(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	_, err := h.Run(t.Context(), Cmd{Argv: []string{"sleep", "300"}, Timeout: 100 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no end after 100ms") {
		t.Errorf("got %v", err)
	}
}

func TestSessionLimits(t *testing.T) {
	for name, max := range map[string]int64{"ours": 0, "theirs": 3} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, func(s *server) { s.max = max })
			h := s.host(t, nil)
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			// A server counts a session a little longer than its client; 10 is what sshd allows.
			if got := s.most.Load(); got > 10 {
				t.Errorf("%d sessions at once, want at most 10", got)
			}
			if got := s.dials.Load(); got != 1 {
				t.Errorf("%d connections, want 1", got)
			}
		})
	}
}

func TestStdinFails(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	broken := errors.New("disk on fire")
	_, err := h.Run(t.Context(), Cmd{Argv: []string{"cat"}, Stdin: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))})
	wantError(t, err, broken, "standard input")
}
