package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/kuberung/kuberung/hosts"
)

// screen is a terminal and the person before it.
type screen struct {
	t    *testing.T
	pty  *os.File // the person's side
	tty  *os.File // keeps the terminal there while nobody asks
	name string

	mu    sync.Mutex
	shown bytes.Buffer
	more  chan struct{} // something was shown
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, pty: master, tty: tty, name: tty.Name(), more: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s, master) // ends with the terminal
	}()
	t.Cleanup(func() { tty.Close(); master.Close(); <-read })
	return s
}

// Write is what appears on the screen.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown.Write(p)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// reads waits until the screen shows this and nothing else, which it is then cleared of.
func (s *screen) reads(want string) {
	s.t.Helper()
	want = strings.ReplaceAll(want, "\n", "\r\n")
	for {
		s.mu.Lock()
		got := s.shown.String()
		if got == want {
			s.shown.Reset()
		}
		s.mu.Unlock()
		if got == want {
			return
		}
		if !strings.HasPrefix(want, got) {
			s.t.Fatalf("the screen shows %q, want %q", got, want)
		}
		select {
		case <-s.more:
		case <-s.t.Context().Done():
			s.t.Fatalf("the screen shows %q, want %q", got, want)
		}
	}
}

func (s *screen) types(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.pty, text); err != nil {
		s.t.Fatal(err)
	}
}

// echoes reports whether the terminal shows what is typed.
func (s *screen) echoes() bool {
	s.t.Helper()
	state, err := termios(s.tty)
	if err != nil {
		s.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func (s *screen) open() (*os.File, error) { return os.OpenFile(s.name, os.O_RDWR|unix.O_NOCTTY, 0) }

// answer is what an asker gets.
type answer struct {
	secret hosts.Secret
	err    error
}

// asks puts a question in the background.
func (s *screen) asks(ctx context.Context, t *terminal, q hosts.Question) chan answer {
	got := make(chan answer, 1)
	go func() {
		secret, err := t.ask(ctx, q)
		got <- answer{secret, err}
	}()
	return got
}

func TestAQuestionOnTheTerminal(t *testing.T) {
	s := newScreen(t)
	term := &terminal{open: s.open}
	tests := []struct {
		q            hosts.Question
		shown, typed string
		want         string
	}{
		{hosts.Question{Host: "cp1", What: "sudo password of ops"}, "cp1: sudo password of ops: ", "open sesame\n", "open sesame"},
		{hosts.Question{What: "passphrase of /k"}, "passphrase of /k: ", "\r", ""},
		{hosts.Question{Host: "cp1", What: "password", Again: errors.New("sudo\x1b[2J refuses")}, "cp1: sudo\\x1b[2J refuses\ncp1: password: ", " wrong\x7f\x7fuld \n", " wrould "},
	}
	for _, tt := range tests {
		got := s.asks(t.Context(), term, tt.q)
		s.reads(tt.shown)
		if s.echoes() {
			t.Errorf("%s: the terminal shows what is typed", tt.shown)
		}
		s.types(tt.typed)
		if a := <-got; a.err != nil || a.secret != hosts.NewSecret(tt.want) {
			t.Errorf("%s: not the answer that was typed, %v", tt.shown, a.err)
		}
		s.reads("\n")
		if !s.echoes() {
			t.Errorf("%s: the terminal was left without echo", tt.shown)
		}
	}
}

// What was typed before the question, for somebody else, is no answer to it.
func TestNothingTypedBeforeAnswers(t *testing.T) {
	s := newScreen(t)
	s.types("make test\n")
	s.reads("make test\n")
	got := s.asks(t.Context(), &terminal{open: s.open}, hosts.Question{What: "password"})
	s.reads("password: ")
	s.types("secret\n")
	if a := <-got; a.err != nil || a.secret != hosts.NewSecret("secret") {
		t.Errorf("not the answer that was typed, %v", a.err)
	}
}

// A question that nobody wants answered any more leaves the terminal as it was, and takes nothing from the next reader.
func TestAQuestionThatEnds(t *testing.T) {
	enough := errors.New("enough")
	for name, end := range map[string]struct {
		how  func(cancel context.CancelCauseFunc, stop chan struct{}, s *screen)
		want string
		is   error
	}{
		"the context": {func(cancel context.CancelCauseFunc, _ chan struct{}, _ *screen) { cancel(enough) }, "enough", enough},
		"Ctrl-C":      {func(_ context.CancelCauseFunc, stop chan struct{}, _ *screen) { close(stop) }, "stopped", nil},
		"Ctrl-D":      {func(_ context.CancelCauseFunc, _ chan struct{}, s *screen) { s.types("\x04") }, "nobody can be asked: no answer was given", hosts.ErrNobody},
	} {
		t.Run(name, func(t *testing.T) {
			s, stop := newScreen(t), make(chan struct{})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			got := s.asks(ctx, &terminal{open: s.open, stop: stop}, hosts.Question{What: "password"})
			s.reads("password: ")
			end.how(cancel, stop, s)
			if a := <-got; a.err == nil || a.err.Error() != end.want || end.is != nil && !errors.Is(a.err, end.is) {
				t.Errorf("error is %v, want %s", a.err, end.want)
			}
			s.reads("\n")
			if !s.echoes() {
				t.Error("the terminal was left without echo")
			}
			read := make(chan string, 1)
			go func() {
				buffer := make([]byte, 100)
				n, _ := s.tty.Read(buffer)
				read <- string(buffer[:n])
			}()
			s.types("y\n")
			if line := <-read; line != "y\n" {
				t.Errorf("the next reader gets %q", line)
			}
		})
	}
}

func TestNobodyCanBeAsked(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	gone := newScreen(t)
	for name, open := range map[string]func() (*os.File, error){
		"no terminal":      nil,
		"none of its own":  func() (*os.File, error) { return nil, &os.PathError{Op: "open", Path: "/dev/tty", Err: unix.ENXIO} },
		"a file":           func() (*os.File, error) { return os.Open(file.Name()) },
		"one that is gone": func() (*os.File, error) { f, err := gone.open(); gone.pty.Close(); return f, err },
	} {
		if _, err := (&terminal{open: open}).ask(t.Context(), hosts.Question{What: "password"}); !errors.Is(err, hosts.ErrNobody) {
			t.Errorf("%s: error is %v, want one that says nobody can be asked", name, err)
		}
	}
}

// Lines that are written while a question is open do not run into it, and the question stands below them again.
func TestLinesBesideAQuestion(t *testing.T) {
	s := newScreen(t)
	term := &terminal{open: s.open}
	out := term.beside(s.tty)
	var file strings.Builder
	record := term.beside(&file)
	fmt.Fprintln(out, "before")
	s.reads("before\n")
	got := s.asks(t.Context(), term, hosts.Question{What: "password", Again: errors.New("once more")})
	s.reads("once more\npassword: ")
	fmt.Fprintln(out, "meanwhile")
	s.reads("\nmeanwhile\npassword: ")
	fmt.Fprintln(record, "for the record") // not on the screen, so no reason to ask anew
	s.types("secret\n")
	if a := <-got; a.err != nil {
		t.Error(a.err)
	}
	fmt.Fprintln(out, "after")
	s.reads("\nafter\n")
	if file.String() != "for the record\n" {
		t.Errorf("the record is %q", file.String())
	}
}
