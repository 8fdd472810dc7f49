package hosts

import (
	"context"
	"errors"
	"os/exec"
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
