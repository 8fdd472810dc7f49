package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"time"
)

// dialog is what a sudo that may want the password says on standard error, and what to do about it. The password must
// not go out unless sudo waits for it: a sudo that asks for none would hand it to the shell it runs.
type dialog struct {
	one, two string
	answered int  // how much had been said when the password went out; 0: it has not
	guessed  bool // it went out for what only looked like a question: the real one may still come, and is answered
}

func newDialog() *dialog { return &dialog{one: rand.Text(), two: rand.Text()} }

// argument is the prompt as sudo takes it, and prompt as it prints it. They differ, and so do shell and ready, because
// a shell may print the commands that it runs.
func (d *dialog) argument() string { return d.one + "%%" + d.two }
func (d *dialog) prompt() string   { return d.one + "%" + d.two }

// shell is what sudo is to run: it says that it is there, then evaluates a line, but only one that begins with the key.
func (d *dialog) shell() string {
	return fmt.Sprintf(`echo %s''%s >&2; IFS= read -r k; case $k in %s*) eval "${k#%s}" ;; esac`, d.one, d.two, d.key(), d.key())
}
func (d *dialog) ready() string { return d.one + d.two }
func (d *dialog) key() string   { return d.two }

// move is what to do next.
type move int

const (
	hearMore move = iota
	tellIt        // sudo asks for the password
	wrong         // it did not take it
	ready         // the shell is there
)

// ownPrompt is a question that PAM puts in the place of the prompt we gave, and tryAgain what follows a wrong answer.
var (
	ownPrompt = regexp.MustCompile(`(?i)(^|\n)[^\n]*password[^\n]*: ?$`)
	tryAgain  = regexp.MustCompile(`(?i)try again`)
)

// next says what to do after all that was said. still: and then nothing came for a while.
func (d *dialog) next(said []byte, still bool) move {
	if bytes.Contains(said, []byte(d.ready())) {
		return ready
	}
	fresh := said[min(d.answered, len(said)):]
	if at := bytes.Index(fresh, []byte(d.prompt())); d.guessed && at >= 0 {
		d.guessed = false
		d.answered += at + len(d.prompt())
		fresh = said[d.answered:]
	}
	asks := bytes.Contains(fresh, []byte(d.prompt())) || still && ownPrompt.Match(fresh)
	switch {
	case d.answered == 0 && asks:
		return tellIt
	case d.answered > 0 && (asks || tryAgain.Match(fresh)):
		return wrong
	}
	return hearMore
}

// tell notes that the password goes out after all that was said.
func (d *dialog) tell(said []byte) {
	d.answered, d.guessed = len(said), !bytes.Contains(said, []byte(d.prompt()))
}

// converse hands the password to sudo if it asks, until the shell behind it is there. there is false if the session
// ended before.
func (c *call) converse(ctx context.Context) (there bool, err error) {
	limit := time.NewTimer(c.host.tune.sudoLimit)
	defer limit.Stop()
	for {
		still, over := c.hear(ctx)
		said := c.stderr.all()
		switch c.talk.next(said, still) {
		case ready:
			if c.talk.answered > 0 {
				c.pass.accept()
			}
			c.pass.leave()
			return true, nil
		case tellIt:
			c.talk.tell(said)
			c.pass.tell(c.session)
			limit.Reset(c.host.tune.sudoLimit)
		case wrong:
			return false, c.host.wrongPassword()
		}
		if over {
			return false, nil
		}
		select {
		case <-limit.C:
			return false, c.mute(said)
		default:
		}
	}
}

// hear waits until something has come, or nothing for a while.
func (c *call) hear(ctx context.Context) (still, over bool) {
	t := time.NewTimer(c.host.tune.sudoSilence)
	defer t.Stop()
	select {
	case <-c.stir:
	case <-t.C:
		still = true
	case <-c.drained:
		over = true
	case <-ctx.Done():
		over = true
	}
	return still, over
}

// mute is the error of a sudo that neither asks nor begins.
func (c *call) mute(said []byte) error {
	text := fmt.Sprintf("sudo on %s neither asks for the password nor begins for %v", c.host.name, c.host.tune.sudoLimit)
	if words := lastWords(string(c.clean(said)), 400); words != "" {
		text += "; it said: " + words
	}
	return &refusedError{ErrSudo, text}
}

// clean takes our own words out of what sudo said, the password above all: nobody promises that it is not repeated.
func (c *call) clean(said []byte) []byte {
	if secret := c.pass.secret.text; secret != "" {
		said = bytes.ReplaceAll(said, []byte(secret), []byte(shown))
	}
	return c.talk.clean(said)
}

// clean takes out the prompt, and the command that sudo may name.
func (d *dialog) clean(said []byte) []byte {
	said = bytes.ReplaceAll(said, []byte(d.prompt()), nil)
	return bytes.ReplaceAll(said, []byte(d.shell()), []byte("…"))
}
