package hosts

import (
	"context"
	"io"
	"strings"
	"time"
)

// Cmd is one command.
type Cmd struct {
	Argv    []string
	Stdin   io.Reader     // nil: empty. Must return in the end: a reader that blocks for ever keeps its goroutine
	Sudo    bool          // as root
	Timeout time.Duration // 0: 2 minutes
}

// Script is a text for /bin/sh. Text and arguments travel over standard input, so the login shell, the limit
// on argument lists and ps do not matter. The script's own standard input is empty, its directory is /, its
// umask 022, its locale C. Nothing sets -e; the exit status is that of the last command.
type Script struct {
	Name    string // for errors; empty: the script's first words
	Text    string
	Args    []string      // $1, $2, …
	Sudo    bool          // as root
	Timeout time.Duration // 0: 2 minutes
}

// Run runs a command and returns its standard output. A command that ended badly gives *[ExitError], with
// the output it had. When ctx ends or the timeout passes, or with more than 64 MiB of output, the remote process is
// ended as well. A child left behind in the background is not waited for, unless it never stops talking.
func (h *Host) Run(ctx context.Context, c Cmd) (stdout []byte, err error) {
	return h.exec(ctx, request{
		label: shorten(strings.Join(c.Argv, " "), 120),
		text:  `exec "$@"`, args: c.Argv, stdin: c.Stdin, privileged: c.Sudo, limit: c.Timeout,
	})
}

// Script runs a script as [Host.Run] runs a command.
func (h *Host) Script(ctx context.Context, s Script) (stdout []byte, err error) {
	if s.Name == "" {
		s.Name = shorten(strings.TrimSpace(s.Text), 60)
	}
	return h.exec(ctx, request{label: s.Name, text: s.Text, args: s.Args, privileged: s.Sudo, limit: s.Timeout})
}
