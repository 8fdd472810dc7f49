package hosts

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// What callers branch on. Match with errors.Is.
var (
	ErrHostKeyUnknown    = errors.New("host key unknown")
	ErrHostKeyChanged    = errors.New("host key changed")
	ErrAuth              = errors.New("authentication refused")
	ErrPassphrase        = errors.New("the key needs its passphrase")
	ErrSSHConfig         = errors.New("the configuration of ssh cannot be followed")
	ErrUnreachable       = errors.New("unreachable")
	ErrConnLost          = errors.New("connection lost")
	ErrForwardingRefused = errors.New("sshd forbids forwarding")
	ErrSudo              = errors.New("no root by sudo")
	ErrSudoPassword      = errors.New("sudo refuses the password")
	ErrSudoers           = errors.New("not allowed to use sudo")
	ErrNotRoot           = errors.New("login user is not root, and sudo is not configured")
	ErrChecksum          = errors.New("checksum differs")
	ErrNoSystemdRun      = errors.New("no systemd-run on the host")
	ErrUnitRunning       = errors.New("unit is running")
	ErrUnitInterrupted   = errors.New("unit was interrupted: it left no result")
	ErrUnitLimit         = errors.New("unit passed its limit")
)

// errNotSent marks errors from before anything was asked of the host, so trying again is safe.
var errNotSent = errors.New("nothing sent")

// ConnectError is a connection that was not made.
type ConnectError struct {
	Host, Address string // Address with port
	Phase         string // what was being waited for: "tcp connect", "ssh banner", …
	Kind          error  // ErrUnreachable, ErrAuth, ErrHostKeyUnknown, ErrHostKeyChanged or ErrSSHConfig
	Err           error  // the reason
}

// Error names host, address and phase.
func (e *ConnectError) Error() string {
	where := e.Host
	if e.Host+":22" != e.Address {
		where += " (" + e.Address + ")"
	}
	return fmt.Sprintf("connect to %s: %s: %v", where, e.Phase, e.Err)
}

// Unwrap gives the kind and the reason.
func (e *ConnectError) Unwrap() []error { return []error{e.Kind, e.Err} }

// ExitError is a remote command that ran and did not succeed.
type ExitError struct {
	Host    string
	Command string // shortened, for people
	Code    int    // exit status; -1 if a signal ended it
	Signal  string // name without SIG, if a signal ended it
	Stderr  string // all of it; for a detached unit the end of its output
}

// Error is one line: command, host, status and the end of what it said.
func (e *ExitError) Error() string {
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		how = "killed by SIG" + e.Signal
	}
	msg := fmt.Sprintf("%s on %s: %s", e.Command, e.Host, how)
	if s := lastWords(e.Stderr, 400); s != "" {
		msg += ": " + s
	}
	return msg
}

// lastWords is the end of what a program said, as one line of at most max bytes.
func lastWords(s string, max int) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	out := strings.ToValidUTF8(strings.Join(lines, "; "), "?")
	if len(out) <= max {
		return out
	}
	return "…" + strings.ToValidUTF8(out[len(out)-max:], "")
}

// shorten cuts s to at most max bytes for display, as one line.
func shorten(s string, max int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= max {
		return s
	}
	cut := max
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
