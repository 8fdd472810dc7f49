package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// request is one script for /bin/sh on the host.
type request struct {
	label      string // for people
	text       string
	args       []string
	stdin      io.Reader // the script's standard input; nil: empty
	privileged bool
	limit      time.Duration
}

// searchPath is appended to the login's, which on many systems lacks sbin for everybody but root.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// script is the whole text: a frame on both streams, a plain environment, the arguments, the request's text.
func (h *Host) script(r request, nonce string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "printf '%%s %%s\\n' %s $$; printf '%%s\\n' %s >&2\n", nonce, nonce)
	b.WriteString("PATH=${PATH:+$PATH:}" + h.tune.searchPath + "; LC_ALL=C; export PATH LC_ALL; unset ENV BASH_ENV CDPATH; umask 022; cd /\n")
	if r.privileged {
		b.WriteString("HOME=/root; export HOME\n")
	}
	if r.privileged && !h.cfg.Sudo {
		fmt.Fprintf(&b, "[ \"$(id -u)\" = 0 ] || exit %d\n", codeNotRoot)
	}
	b.WriteString("set -- " + Quote(r.args...) + "\n" + r.text + "\n")
	return b.String()
}

// codeNotRoot is the script's exit status when root was needed and the login user is somebody else.
const codeNotRoot = 78

// command is what the login shell parses.
func (h *Host) command(privileged bool) string {
	if privileged && h.cfg.Sudo {
		return "sudo -n -- " + loader
	}
	return loader
}

// exec runs a request to its end and returns its standard output. When ctx or the limit ends first, the
// remote process is ended too.
func (h *Host) exec(ctx context.Context, r request) (stdout []byte, err error) {
	if err := checkWords(append([]string{r.text}, r.args...)); err != nil {
		return nil, fmt.Errorf("%s: %w", r.label, err)
	}
	if r.limit <= 0 {
		r.limit = defaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, &limitError{r.limit})
	defer cancel()
	err = h.onConn(ctx, func(c *conn) error {
		s, err := c.openSession(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", r.label, err)
		}
		defer s.Close()
		stdout, err = h.runOn(ctx, s, r)
		return err
	})
	return stdout, err
}

// runOn runs a request in a fresh session.
func (h *Host) runOn(ctx context.Context, s *session, r request) ([]byte, error) {
	nonce := rand.Text()
	stir := make(chan struct{}, 1)
	stdout, stderr := &output{nonce: nonce, stir: stir}, &output{nonce: nonce, stir: stir}
	if err := s.ask(ctx, "exec", text(h.command(r.privileged))); err != nil {
		return nil, fmt.Errorf("%s: %w", r.label, err)
	}
	drained := collect(s, stdout, stderr)
	go feed(s, oneLine(h.script(r, nonce)), r.stdin)
	e, err := h.await(ctx, s, stdout, r)
	if err != nil {
		return nil, err
	}
	quiet(ctx, drained, stir, h.tune.outputGrace)
	return h.result(r, e, stdout, stderr)
}

// collect copies both streams; drained is closed at the end of both.
func collect(s *session, stdout, stderr io.Writer) (drained <-chan struct{}) {
	done := make(chan struct{})
	var both sync.WaitGroup
	// A read error is the end of the channel; exit status and connection say why.
	both.Go(func() { _, _ = io.Copy(stdout, s) })
	both.Go(func() { _, _ = io.Copy(stderr, s.Stderr()) })
	go func() { both.Wait(); close(done) }()
	return done
}

// feed writes the script, then the standard input. A program may end without reading it all, so errors say
// nothing that the exit status does not.
func feed(s *session, script string, stdin io.Reader) {
	if _, err := io.WriteString(s, script); err != nil {
		return
	}
	if stdin != nil {
		if _, err := io.Copy(s, stdin); err != nil {
			s.Close() // the input is cut: better no end than a false one
			return
		}
	}
	_ = s.CloseWrite() // fails only on a dead channel
}

// await waits for the exit status. If ctx ends first it ends the remote process.
func (h *Host) await(ctx context.Context, s *session, stdout *output, r request) (exit, error) {
	select {
	case e, ok := <-s.exited:
		if !ok {
			err := s.conn.settle(fmt.Errorf("sshd on %s closed the session without an exit status", h.cfg.Name))
			return exit{}, fmt.Errorf("%s: %w", r.label, err)
		}
		return e, nil
	case <-ctx.Done():
		h.end(ctx, s, stdout, r.privileged)
		return exit{}, fmt.Errorf("%s on %s: %w", r.label, h.cfg.Name, context.Cause(ctx))
	}
}

// quiet waits for the end of both streams, but not for a background child that holds them open: after the
// exit status, silence for grace is an end as well.
func quiet(ctx context.Context, drained, stir <-chan struct{}, grace time.Duration) {
	t := time.NewTimer(grace)
	defer t.Stop()
	for {
		select {
		case <-drained:
			return
		case <-stir:
			t.Reset(grace)
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// result turns an exit into stdout or an error.
func (h *Host) result(r request, e exit, stdout, stderr *output) ([]byte, error) {
	_, out, started := stdout.framed()
	_, errs, _ := stderr.framed()
	if !started {
		return nil, h.neverStarted(r, e, out, errs)
	}
	if e.code == 0 && e.signal == "" {
		return out, nil
	}
	if e.code == codeNotRoot && r.privileged && !h.cfg.Sudo && len(out)+len(errs) == 0 {
		return nil, fmt.Errorf("%s on %s as %s: %w", r.label, h.cfg.Name, h.cfg.User, ErrNotRoot)
	}
	return out, &ExitError{Host: h.cfg.Name, Command: r.label, Code: e.code, Signal: e.signal, Stderr: string(errs)}
}

// neverStarted explains an exit before our first line: sudo or the login shell stood in the way.
func (h *Host) neverStarted(r request, e exit, stdout, stderr []byte) error {
	said := string(bytes.TrimSpace(stderr))
	if said == "" {
		said = string(bytes.TrimSpace(stdout))
	}
	exit := &ExitError{Host: h.cfg.Name, Command: r.label, Code: e.code, Signal: e.signal, Stderr: said}
	if r.privileged && h.cfg.Sudo && (strings.Contains(said, "sudo") || strings.Contains(said, "password")) {
		return fmt.Errorf("%w: %w", ErrSudo, exit)
	}
	return fmt.Errorf("the login shell of %s did not start /bin/sh: %w", h.cfg.User, exit)
}

// endLimit is how long ending a remote process may hold up a call whose context is over.
const endLimit = 2 * time.Second

// killTree ends a process and all its descendants.
const killTree = `
all=$1 next=$1
while [ -n "$next" ]; do
	found=
	for p in $next; do found="$found $(cat /proc/"$p"/task/*/children 2>/dev/null)"; done
	next=$(echo $found)
	all="$next $all"
done
kill -TERM $all`

// end stops the remote process: by an SSH signal, which sshd delivers to processes of the login user, and by
// killing the tree under the pid it told us, as root if it is root's. Best effort; the caller has its error.
func (h *Host) end(ctx context.Context, s *session, stdout *output, privileged bool) {
	if !s.conn.alive() {
		return
	}
	// The caller's context is over; this must happen all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	pid, known := stdout.pid()
	if known {
		if spare, err := s.conn.spareSession(ctx); err == nil {
			_, _ = h.runOnce(ctx, spare, request{label: "kill", text: killTree, args: []string{strconv.Itoa(pid)}, privileged: privileged})
			spare.Close()
		}
	}
	_, _ = s.SendRequest("signal", false, text("TERM"))
}

// runOnce is runOn without ending the process in turn.
func (h *Host) runOnce(ctx context.Context, s *session, r request) ([]byte, error) {
	nonce := rand.Text()
	if err := s.ask(ctx, "exec", text(h.command(r.privileged))); err != nil {
		return nil, err
	}
	go feed(s, oneLine(h.script(r, nonce)), nil)
	drained := collect(s, io.Discard, io.Discard)
	select {
	case <-s.exited:
		return nil, nil
	case <-drained:
		return nil, errors.New("session closed")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
