package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// sudoAttempts is how many passwords one host may refuse: then the account may be about to be locked.
const sudoAttempts = 2

// pass is a password in the hands of one call. What is not known to be right is held by one call at a time.
type pass struct {
	secret  Secret
	root    *root
	account *account
	leaving []func()
	once    sync.Once
}

// tell writes the password to sudo.
func (p *pass) tell(w io.Writer) {
	line := append([]byte(p.secret.text), '\n')
	_, _ = w.Write(line) // fails only with the session, whose end is seen
	clear(line)
}

// accept: the host has taken it.
func (p *pass) accept() {
	p.root.mu.Lock()
	p.root.accepted = p.secret
	p.root.mu.Unlock()
	p.account.mu.Lock()
	p.account.good, p.account.refused = p.secret, refusal{}
	p.account.mu.Unlock()
}

// refuse: the host has not. The caller holds root.mu.
func (p *pass) refuse(why error) {
	r := refusal{p.secret, why}
	p.root.accepted = Secret{}
	p.root.refused = append(p.root.refused, r)
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	if p.account.good == (Secret{}) {
		p.account.refused = r
	}
}

// leave lets the next call try.
func (p *pass) leave() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		for _, f := range p.leaving {
			f()
		}
	})
}

// password gives the one that the host has accepted, or one to try.
func (h *Host) password(ctx context.Context) (*pass, error) {
	name := "user " + h.cfg.User
	if h.cfg.SudoPasswordFile != "" {
		name = "file " + h.cfg.SudoPasswordFile
	}
	p := &pass{root: h.root, account: h.net.account(name)}
	if p.known() {
		return p, nil
	}
	if err := take(ctx, h.root.turn, h); err != nil {
		return nil, err
	}
	p.leaving = append(p.leaving, func() { <-h.root.turn })
	if p.known() {
		p.leave()
		return p, nil
	}
	err := p.find(ctx, h)
	if err != nil {
		p.leave()
		return nil, err
	}
	return p, nil
}

// known: the host has accepted one.
func (p *pass) known() bool {
	p.root.mu.Lock()
	defer p.root.mu.Unlock()
	p.secret = p.root.accepted
	return p.secret != Secret{}
}

// find gets a password that may be tried on the host.
func (p *pass) find(ctx context.Context, h *Host) error {
	h.root.mu.Lock()
	err, refused := h.barred(), h.root.refused
	h.root.mu.Unlock()
	if err != nil {
		return err
	}
	leave, err := p.account.enter(ctx, h)
	if err != nil {
		return err
	}
	p.leaving = append(p.leaving, leave)
	if h.cfg.SudoPasswordFile != "" {
		p.secret, err = h.passwordOfFile(p.account)
		return err
	}
	p.secret, err = h.typedPassword(ctx, p.account, refused)
	return err
}

// typedPassword asks for one, or gives what was typed before. A host that does not take what others take has one of
// its own.
func (h *Host) typedPassword(ctx context.Context, a *account, here []refusal) (Secret, error) {
	good, elsewhere := a.state()
	id, q := "sudo "+h.cfg.User, Question{Host: h.name, What: "sudo password of " + h.cfg.User}
	last := elsewhere
	if len(here) > 0 {
		last = here[len(here)-1]
	}
	if slices.ContainsFunc(here, func(r refusal) bool { return r.secret == good }) {
		id += "@" + h.name
	}
	q.Again = last.why
	secret, err := h.net.secrets.get(ctx, id, q, last.secret)
	if errors.Is(err, ErrNobody) {
		text := fmt.Sprintf("sudo on %s wants the password of %s: run on a terminal, or set ssh.sudoPasswordFile", h.name, h.cfg.User)
		return Secret{}, &refusedError{ErrNobody, text}
	}
	if err != nil {
		return Secret{}, fmt.Errorf("sudo on %s: %w", h.name, err)
	}
	return secret, nil
}

// passwordOfFile reads one.
func (h *Host) passwordOfFile(a *account) (Secret, error) {
	secret, err := readSecret(h.cfg.SudoPasswordFile)
	if err != nil {
		return Secret{}, fmt.Errorf("sudo password of %s on %s: %w", h.cfg.User, h.name, err)
	}
	if _, elsewhere := a.state(); elsewhere.why != nil && elsewhere.secret == secret {
		return Secret{}, fmt.Errorf("not tried on %s: %w", h.name, elsewhere.why)
	}
	return secret, nil
}

// readSecret reads the first line of a file that nobody else can read.
func readSecret(path string) (Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Secret{}, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return Secret{}, fmt.Errorf("%s is open to others (mode %04o): chmod 600 %s", path, mode, Quote(path))
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return Secret{}, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	clear(text)
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return Secret{}, fmt.Errorf("%s holds no password on its first line", path)
	}
	return NewSecret(line), nil
}

// wrongPassword is the error of a sudo that did not take it.
func (h *Host) wrongPassword() error {
	from := ""
	if h.cfg.SudoPasswordFile != "" {
		from = " that " + h.cfg.SudoPasswordFile + " holds"
	}
	return &refusedError{ErrSudoPassword, fmt.Sprintf("sudo on %s refuses the password of %s%s", h.name, h.cfg.User, from)}
}

// barred is why the host is not to be tried with a password again; nil: it may be. The caller holds root.mu.
func (h *Host) barred() error {
	n := len(h.root.refused)
	if n == 0 || n < sudoAttempts && h.cfg.SudoPasswordFile == "" {
		return nil
	}
	return fmt.Errorf("%w; it is not tried again in this run, because accounts get locked", h.root.refused[n-1].why)
}
