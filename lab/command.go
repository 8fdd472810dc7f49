package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// command is one external program run by the lab. Its output goes to a log file, so that a failure can be read where
// it happened; the error carries the last lines.
type command struct {
	Argv  []string
	Dir   string
	Env   []string // added to the lab's own
	Stdin io.Reader
	Log   string        // path of the log file, appended to; empty keeps no log
	Limit time.Duration // zero: defaultLimit
}

const defaultLimit = 5 * time.Minute

// run runs c and returns its standard output. The error of a failing command names it, its log and its last words.
func (c command) run(ctx context.Context) (string, error) {
	limit := c.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %s", c.Argv[0], limit))
	defer cancel()

	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin = c.Dir, c.Stdin
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second

	err := cmd.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if logErr := c.keepLog(stdout.Bytes(), stderr.Bytes(), err); logErr != nil {
		err = errors.Join(err, logErr)
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("%s%s: %w", c.summary(), c.lastWords(&stdout, &stderr), err)
	}
	return stdout.String(), nil
}

// summary names the command by its first words: enough to recognise it, short enough for a line.
func (c command) summary() string {
	words := c.Argv
	if len(words) > 6 {
		words = append(append([]string{}, words[:6]...), "…")
	}
	return strings.ReplaceAll(strings.Join(words, " "), "\n", " ")
}

// lastWords is what the operator needs of a failed command: the end of what it said, and where the rest is.
func (c command) lastWords(stdout, stderr *bytes.Buffer) string {
	said := strings.TrimSpace(stderr.String())
	if said == "" {
		said = strings.TrimSpace(stdout.String())
	}
	lines := strings.Split(said, "\n")
	said = strings.Join(lines[max(0, len(lines)-5):], " | ")
	if said != "" {
		said = ": " + said
	}
	if c.Log != "" {
		said += " (log: " + c.Log + ")"
	}
	return said
}

func (c command) keepLog(stdout, stderr []byte, err error) error {
	if c.Log == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o755); err != nil {
		return err
	}
	file, openErr := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if openErr != nil {
		return openErr
	}
	fmt.Fprintf(file, "--- %s %s\n%s%s--- %v\n", time.Now().Format(time.RFC3339), c.summary(), stdout, stderr, err)
	return file.Close()
}

// await asks ask every interval until it returns nil, and ends with its last answer when limit has passed.
func await(ctx context.Context, what string, limit time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // an answer cut short by the limit says less than the one before
		}
		if ended := pause(ctx, time.Second); ended != nil {
			return fmt.Errorf("%s: %w, last: %w", what, ended, last)
		}
	}
}

// pause waits for d unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
