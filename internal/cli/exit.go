package cli

import (
	"fmt"
	"strings"
)

// The exit codes of every command. A test holds the table in README.md to them.
const (
	codeDone        = 0
	codeFailed      = 1
	codeUsage       = 2
	codeCheck       = 3
	codeStopped     = 4
	codeLocked      = 5
	codeInterrupted = 130
)

// codes says what each exit code means.
var codes = []struct {
	code    int
	meaning string
}{
	{codeDone, "done, or nothing to do"},
	{codeFailed, "something failed; the message says what state things were left in"},
	{codeUsage, "wrong usage, or a mistake in the cluster file; nothing was changed"},
	{codeCheck, "a check said no; nothing was changed, or of a climb only whole rungs"},
	{codeStopped, "stopped in good order, or not confirmed; work remains: run the same command again"},
	{codeLocked, "somebody else is at work on this cluster; nothing was changed"},
	{codeInterrupted, "interrupted by Ctrl-C, an upgrade only by a second one: run the same command again"},
}

func exitCodes() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, c := range codes {
		fmt.Fprintf(&b, "  %3d  %s\n", c.code, c.meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{codeUsage, err} }
