package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"golang.org/x/crypto/ssh"
)

// replay runs a command, tells its status first, and then does with its output what rest says.
func (s *server) replay(rest func(sess gliderssh.Session, out []byte)) gliderssh.Handler {
	return func(sess gliderssh.Session) {
		cmd := exec.Command("/bin/sh", "-c", sess.RawCommand())
		cmd.Stdin = sess
		out, _ := cmd.Output()
		_, _ = sess.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{0}))
		rest(sess, out)
	}
}

// sshd tells the exit status before the last of the output: a line that breaks in between has cut it.
func TestOutputCutAfterTheStatus(t *testing.T) {
	s := startServer(t, func(s *server) {
		s.Handler = s.replay(func(sess gliderssh.Session, out []byte) {
			_, _ = sess.Write(out[:len(out)-4])
			s.cut()
		})
	})
	out, err := s.host(t, nil).Run(t.Context(), Cmd{Argv: []string{"echo", "all of it"}})
	if !errors.Is(err, ErrConnLost) {
		t.Errorf("got %q, %v, want a lost connection", out, err)
	}
}

// A child in the background that never stops talking: the limit came before what was the command's own could be told.
func TestOutputNotOverAtTheLimit(t *testing.T) {
	s := startServer(t, func(s *server) {
		s.Handler = s.replay(func(sess gliderssh.Session, out []byte) {
			for err := error(nil); err == nil; _, err = sess.Write([]byte("x")) {
				_ = sleep(t.Context(), 10*time.Millisecond)
				if out != nil {
					_, _ = sess.Write(out)
					out = nil
				}
			}
		})
	})
	out, err := s.host(t, nil).Run(t.Context(), Cmd{Argv: []string{"echo", "all of it"}, Timeout: 300 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %q, %v, want the limit", out, err)
	}
}

// heardUpTo is a line that breaks once, when so many bytes have been heard over it.
type heardUpTo struct {
	net.Conn
	left *atomic.Int64
}

func (c heardUpTo) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Load() <= 0 || n == 0 {
		return n, err
	}
	left := c.left.Add(int64(-n))
	if left > 0 {
		return n, err
	}
	c.Close()
	return n + int(left), err
}

// Wherever a line breaks: a script runs once at most, and its output is whole or missing.
func TestRunCutAtAnyByte(t *testing.T) {
	for name, files := range sudoWays {
		t.Run(name, func(t *testing.T) { runCutAtAnyByte(t, sudoServer(t, files)) })
	}
}

func runCutAtAnyByte(t *testing.T, s *server) {
	file := passwordIn(t, password)
	var left atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return heardUpTo{nc, &left}, err
	}
	for at := int64(1); ; at += 17 {
		h := s.sudoHost(t, nil, func(c *Config) { c.Dial, c.SudoPasswordFile = dial, file })
		if err := h.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		left.Store(at)
		ran := filepath.Join(s.dir, fmt.Sprintf("ran-%d", at))
		out, err := h.Script(t.Context(), Script{Text: `echo x >>"$1"; echo one; echo two >&2; echo three`, Args: []string{ran}, Sudo: true})
		whole := left.Load() > 0
		h.Close()
		if err == nil && string(out) != "one\nthree\n" || err != nil && !errors.Is(err, ErrConnLost) {
			t.Errorf("cut after %d bytes: %q, %v", at, out, err)
		}
		if n, _ := os.ReadFile(ran); bytes.Count(n, []byte("x")) > 1 {
			t.Errorf("cut after %d bytes: ran twice", at)
		}
		if whole {
			return
		}
	}
}

// A host that never stops talking does not fill the memory.
func TestOutputHasALimit(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	for _, text := range []string{"cat /dev/zero", "cat /dev/zero >&2"} {
		_, err := h.Script(t.Context(), Script{Text: text, Timeout: time.Minute})
		wantError(t, err, errTooMuch, text)
	}
}
