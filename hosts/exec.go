package hosts

import (
	"bytes"
	"context"
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

// searchPath is the same on every host and for everybody, whatever the login's is.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"

// lines are what a shell on the host reads to run a request: the preface and the script. To become root by sudo it
// reads another one first, see [call.first].
func (h *Host) lines(r request, nonce string) string {
	return h.preface(r) + oneLine(h.script(r, nonce))
}

// preface puts a new shell in the place of the one that reads it. Nothing reaches the new one, and the programs it
// starts, of what the login's rc files or the site set: LD_PRELOAD, GREP_OPTIONS, KUBECONFIG, functions, the locale.
func (h *Host) preface(r request) string {
	words := append([]string{"exec", "/usr/bin/env", "-i", "LC_ALL=C", "PATH=" + h.tune.searchPath}, h.tune.environment...)
	user := ` HOME="$HOME" USER="$USER" LOGNAME="$LOGNAME" `
	if r.privileged {
		user = ` HOME=/root USER=root LOGNAME=root `
	}
	if r.privileged && h.usesSudo() {
		user += `SUDO_UID="$SUDO_UID" SUDO_GID="$SUDO_GID" `
	}
	return Quote(words...) + user + loader + "\n"
}

// script is the whole text: a frame on both streams, the arguments, the request's text.
func (h *Host) script(r request, nonce string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "printf '%%s %%s\\n' %s $$; printf '%%s\\n' %s >&2\numask 022; cd /\n", nonce, nonce)
	if r.privileged && !h.usesSudo() {
		fmt.Fprintf(&b, "[ \"$(id -u)\" = 0 ] || exit %d\n", codeNotRoot)
	}
	b.WriteString("set -- " + Quote(r.args...) + "\n" + r.text + "\n")
	return b.String()
}

// codeNotRoot is the script's exit status when root was needed and the login user is somebody else.
const codeNotRoot = 78

// exec runs a request to its end and returns its standard output. When ctx or the limit ends first, the
// remote process is ended too. What sudo refuses to begin with is run again in the way that sudo wants.
func (h *Host) exec(ctx context.Context, r request) (stdout []byte, err error) {
	if err := checkWords(append([]string{r.text}, r.args...)); err != nil {
		return nil, fmt.Errorf("%s: %w", r.label, err)
	}
	if r.limit <= 0 {
		r.limit = defaultTimeout
	}
	for again := true; again; {
		stdout, again, err = h.try(ctx, r)
	}
	return stdout, err
}

// try runs a request in the way in which the host, as far as is known, lets us become root.
func (h *Host) try(outer context.Context, r request) (stdout []byte, again bool, err error) {
	c := &call{host: h, req: r, sure: true}
	if err := c.prepare(outer); err != nil {
		return nil, false, err
	}
	defer c.pass.leave()
	ctx, cancel := r.within(outer)
	defer cancel()
	err = h.onConn(ctx, func(cn *conn) error {
		s, err := cn.openSession(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", r.label, err)
		}
		defer s.Close()
		stdout, err = c.run(ctx, s)
		return err
	})
	return stdout, c.learn(err), err
}

// within limits a request, as it does not limit how long a person may think about a password.
func (r request) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.limit, &limitError{r.limit})
}

// result turns an exit into stdout or an error.
func (h *Host) result(r request, e exit, stdout, stderr *output) ([]byte, error) {
	_, out, started := stdout.framed()
	_, errs, _ := stderr.framed()
	if !started {
		return nil, h.neverStarted(r, e, out, errs, false)
	}
	if e.code == 0 && e.signal == "" {
		return out, nil
	}
	if e.code == codeNotRoot && r.privileged && !h.usesSudo() && len(out)+len(errs) == 0 {
		return nil, fmt.Errorf("%s on %s as %s: %w", r.label, h.name, h.cfg.User, ErrNotRoot)
	}
	return out, &ExitError{Host: h.name, Command: r.label, Code: e.code, Signal: e.signal, Stderr: string(errs)}
}

// neverStarted explains an exit before our first line: sudo, which may have been told a password, or the login shell
// stood in the way.
func (h *Host) neverStarted(r request, e exit, stdout, stderr []byte, password bool) error {
	said := string(bytes.TrimSpace(stderr))
	if said == "" {
		said = string(bytes.TrimSpace(stdout))
	}
	if r.privileged && h.usesSudo() {
		if err := h.sudoError(e, said, password); err != nil {
			return err
		}
	}
	exit := &ExitError{Host: h.name, Command: r.label, Code: e.code, Signal: e.signal, Stderr: said}
	return fmt.Errorf("the login shell of %s did not start /bin/sh: %w", h.cfg.User, exit)
}
