package hosts

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
		s.shell = []string{"/bin/sh", "-c", `printf 'Welcome! (no newline)'; echo warning >&2; eval "$0"`}
	})
	h := s.host(t, nil)
	out, err := h.Script(t.Context(), Script{Text: "echo clean; echo why >&2; exit 2"})
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Stderr != "why\n" || string(out) != "clean\n" {
		t.Errorf("got %q, %#v", out, err)
	}
}

func TestLoginShellRefuses(t *testing.T) {
	s := startServer(t, func(s *server) { s.shell = []string{"/bin/sh", "-c", "echo This account is not available; exit 1"} })
	_, err := s.host(t, nil).Run(t.Context(), Cmd{Argv: []string{"id"}})
	if err == nil || !strings.Contains(err.Error(), "login shell") || !strings.Contains(err.Error(), "not available") {
		t.Errorf("got %v", err)
	}
}

// A child left in the background keeps stdout open; the command is over all the same.
func TestBackgroundChild(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := h.Script(ctx, Script{Text: "echo before; sleep 60 & exit 0"})
	if err != nil || string(out) != "before\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestLargeOutputIsWhole(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	out, err := h.Run(t.Context(), Cmd{Argv: []string{"head", "-c", "20000000", "/dev/zero"}})
	if err != nil || len(out) != 20000000 {
		t.Errorf("got %d bytes, %v", len(out), err)
	}
}

func TestContextEndsRemoteProcess(t *testing.T) {
	for name, sudo := range map[string]bool{"plain": false, "sudo": true} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, nil)
			h := s.host(t, nil)
			pidFile := filepath.Join(s.dir, "pid")
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("operator said stop")
			done := make(chan error)
			go func() {
				// The grandchild in its own session escapes signals to the process group.
				_, err := h.Script(ctx, Script{Text: `setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 300' "$1"; :`, Args: []string{pidFile}, Sudo: sudo})
				done <- err
			}()
			waitFor(t, "the process", func() bool { _, err := os.Stat(pidFile); return err == nil })
			cancel(why)
			if err := <-done; !errors.Is(err, why) {
				t.Errorf("got %v, want the cause", err)
			}
			pid, err := os.ReadFile(pidFile)
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the end of the process", func() bool { return ended(strings.TrimSpace(string(pid))) })
		})
	}
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
