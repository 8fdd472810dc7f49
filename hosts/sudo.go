package hosts

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// way is how a host lets us become root.
type way struct {
	terminal bool // sudo runs on a terminal only
	password bool // sudo wants the password
}

// root is what the sudo of one host has shown of itself.
type root struct {
	turn chan struct{} // holds one token while a password is tried that this host has not accepted

	mu       sync.Mutex
	way      way
	proven   bool   // something has become root in this way
	accepted Secret // the password; empty: none yet
	refused  []refusal
}

func newRoot() *root { return &root{turn: make(chan struct{}, 1)} }

// usesSudo: the login user becomes root by sudo. Root does not have to.
func (h *Host) usesSudo() bool { return h.cfg.Sudo && h.cfg.User != "root" }

// prepare finds out how to become root, and gets the password if there has to be one. A person may be asked.
func (c *call) prepare(ctx context.Context) error {
	if !c.req.privileged {
		return nil
	}
	if err := c.host.connectWithin(ctx, c.req); err != nil { // which completes the configuration
		return err
	}
	if !c.host.usesSudo() {
		return nil
	}
	r := c.host.root
	r.mu.Lock()
	c.way, c.sure = r.way, r.proven
	r.mu.Unlock()
	if !c.way.password {
		return nil
	}
	p, err := c.host.password(ctx)
	if err != nil {
		return err
	}
	c.pass, c.talk = p, newDialog()
	return nil
}

func (h *Host) connectWithin(ctx context.Context, r request) error {
	ctx, cancel := r.within(ctx)
	defer cancel()
	return h.Connect(ctx)
}

// learn keeps what a call has shown of sudo. again: nothing has run, and there is another way to try.
func (c *call) learn(err error) (again bool) {
	if !c.req.privileged || !c.host.usesSudo() {
		return false
	}
	r := c.host.root
	r.mu.Lock()
	defer r.mu.Unlock()
	// Standard input that may have been read cannot be given once more.
	whole := !c.sure || c.req.stdin == nil
	switch {
	case c.started():
		if c.way == r.way {
			r.proven = true
		}
	case errors.Is(err, errWantsTerminal) && !c.way.terminal:
		r.way.terminal, r.proven = true, false
		return whole
	case errors.Is(err, errWantsPassword) && !c.way.password:
		r.way.password, r.proven = true, false
		return whole
	case errors.Is(err, ErrSudoPassword):
		c.pass.refuse(err)
		return whole && c.host.barred() == nil
	}
	return false
}

// codeNoScript is the exit status where sudo wants a terminal and nothing makes one.
const codeNoScript = 79

// first is the line by which a shell of the login user becomes root's; empty if it is to stay what it is.
func (c *call) first() string {
	if !c.req.privileged || !c.host.usesSudo() {
		return ""
	}
	sudo := []string{"sudo", "-n", "--", "/bin/sh", "-c", loaderText}
	if c.pass != nil {
		// -k: sudo asks, whatever it remembers. Else it might not, and its answer would differ from call to call.
		sudo = []string{"sudo", "-S", "-k", "-p", c.talk.argument(), "--", "/bin/sh", "-c", c.talk.shell()}
	}
	if !c.way.terminal {
		return "exec /usr/bin/env LC_ALL=C " + Quote(sudo...) + "\n"
	}
	// The program script makes a terminal; sudo has it as its controlling one, but keeps our streams.
	inner := "exec " + Quote(sudo...) + " <&3 >&4 2>&5 3<&- 4>&- 5>&-"
	return fmt.Sprintf("command -v script >/dev/null || exit %d; exec 3<&0 4>&1 5>&2; exec /usr/bin/env LC_ALL=C SHELL=/bin/sh %s </dev/null >/dev/null\n",
		codeNoScript, Quote("script", "-qec", inner, "/dev/null"))
}

// lines are the preface and the script, as the shell that reads them wants them.
func (c *call) lines() string {
	lines := c.host.lines(c.req, c.nonce)
	if c.pass != nil {
		lines = c.talk.key() + lines
	}
	return lines
}

// What sudo wants before it runs anything.
var (
	errWantsPassword = errors.New("sudo wants a password")
	errWantsTerminal = errors.New("sudo wants a terminal")
)

// sudoWords tell refusals apart by what sudo says in English: the original one and sudo-rs.
var sudoWords = []struct {
	kind  error
	words *regexp.Regexp
}{
	{ErrSudoPassword, regexp.MustCompile(`incorrect (password|authentication) attempt`)},
	{ErrSudoers, regexp.MustCompile(`is not in the sudoers file|is not allowed to |may not run |I'm afraid I can't do that`)},
	{errWantsTerminal, regexp.MustCompile(`you must have a tty`)},
	{errWantsPassword, regexp.MustCompile(`a password is required|interactive authentication is required|interaction required|a terminal is required to (read the password|authenticate)`)},
}

// refusedError is a sudo that did not let us become root.
type refusedError struct {
	kind error // ErrSudo or one that says more
	text string
}

func (e *refusedError) Error() string   { return e.text }
func (e *refusedError) Unwrap() []error { return []error{ErrSudo, e.kind} }

// sudoError explains an exit of sudo before it ran anything; nil if it was not sudo that stood in the way.
func (h *Host) sudoError(e exit, said string, password bool) error {
	on := "sudo on " + h.name
	for _, w := range sudoWords {
		switch {
		case !w.words.MatchString(said), w.kind == ErrSudoPassword && !password:
			continue
		case w.kind == ErrSudoPassword:
			return h.wrongPassword()
		case w.kind == ErrSudoers:
			return &refusedError{ErrSudoers, fmt.Sprintf("%s does not let %s become root: %s", on, h.cfg.User, lastWords(said, 400))}
		}
		return &refusedError{w.kind, on + " refuses: " + lastWords(said, 400)}
	}
	switch {
	case e.code == codeNoScript:
		return &refusedError{ErrSudo, fmt.Sprintf("%s wants a terminal (requiretty), and the host has no program script to make one: install it (util-linux), or put \"Defaults:%s !requiretty\" into sudoers", on, h.cfg.User)}
	case e.code == 127:
		return &refusedError{ErrSudo, fmt.Sprintf("there is no sudo on %s that %s would find: install it, or log in as root (exit status 127: %s)", h.name, h.cfg.User, lastWords(said, 400))}
	case strings.Contains(said, "sudo"), strings.Contains(said, "password"):
		return &refusedError{ErrSudo, fmt.Sprintf("%s does not work: exit status %d: %s", on, e.code, lastWords(said, 400))}
	}
	return nil
}
