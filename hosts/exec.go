package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
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
	span       *span // told, if not nil, when the script went out and its answer began
}

// span is the time on our clock within which the host began to answer.
type span struct{ sent, began time.Time }

// searchPath is appended to the login's, which on many systems lacks sbin for everybody but root.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// script is the whole text: a frame on both streams, a plain environment, the arguments, the request's text.
func (h *Host) script(r request, nonce string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "printf '%%s %%s\\n' %s $$; printf '%%s\\n' %s >&2\n", nonce, nonce)
	b.WriteString("case :$PATH: in *:/usr/sbin:*) ;; *) PATH=${PATH:+$PATH:}" + h.tune.searchPath + " ;; esac; LC_ALL=C; export PATH LC_ALL; unset ENV BASH_ENV CDPATH; umask 022; cd /\n")
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
	fed := make(chan error, 1)
	sent := time.Now()
	go func() { fed <- feed(s, oneLine(h.script(r, nonce)), r.stdin) }()
	e, err := h.await(ctx, s, stdout, fed, r)
	if err != nil {
		return nil, err
	}
	quiet(ctx, s.conn, drained, stir)
	if r.span != nil {
		*r.span = span{sent, stdout.firstByte()}
	}
	return h.result(r, e, stdout, stderr)
}

// await waits for the exit status. If ctx ends first it ends the remote process.
func (h *Host) await(ctx context.Context, s *session, stdout *output, fed <-chan error, r request) (exit, error) {
	select {
	case e, ok := <-s.exited:
		if !ok {
			return exit{}, fmt.Errorf("%s: %w", r.label, s.noStatus(fed))
		}
		return e, nil
	case <-ctx.Done():
		h.end(ctx, s, stdout, r.privileged)
		return exit{}, fmt.Errorf("%s on %s: %w", r.label, h.cfg.Name, context.Cause(ctx))
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
