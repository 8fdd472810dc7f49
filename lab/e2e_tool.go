package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// toolRun is one run of the tool, under way or ended.
type toolRun struct {
	name   string // of its files <name>.out and <name>.err below the case's directory
	dir    string
	began  time.Time
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is gone; what follows is set then
	took   time.Duration
	waited error
}

// startTool starts the tool with its output in files named after name. It is ended by SIGINT when ctx ends, and killed a
// minute after that.
func (b *bed) startTool(ctx context.Context, name string, args ...string) (*toolRun, error) {
	r := &toolRun{name: name, dir: b.dir, began: time.Now(), ended: make(chan struct{})}
	stdout, err := os.Create(r.path("out"))
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := os.Create(r.path("err"))
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	argv := slices.Concat(b.machine, []string{b.tool}, args)
	r.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	r.cmd.Stdout, r.cmd.Stderr = stdout, stderr
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(os.Interrupt) }
	r.cmd.WaitDelay = time.Minute
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.ended)
		r.waited = r.cmd.Wait()
		r.took = time.Since(r.began)
	}()
	return r, nil
}

// runTool runs the tool to its end. An error means that it could not be run or did not end within limit.
func (b *bed) runTool(ctx context.Context, limit time.Duration, name string, args ...string) (*toolRun, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %v", name, limit))
	defer cancel()
	r, err := b.startTool(ctx, name, args...)
	if err != nil {
		return nil, err
	}
	<-r.ended
	if ctx.Err() != nil {
		return r, fmt.Errorf("%w: %s", context.Cause(ctx), r.lastWords())
	}
	return r, nil
}

// code is the exit code, or -1 when a signal ended the process. Only after ended.
func (r *toolRun) code() int { return r.cmd.ProcessState.ExitCode() }

// killed ends the process as a power cut does, and fails if it was already gone.
func (r *toolRun) kill() error {
	if err := r.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("%s ended before it could be killed: %w: %s", r.name, err, r.lastWords())
	}
	<-r.ended
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("%s ended as %v before it was killed: %s", r.name, r.cmd.ProcessState, r.lastWords())
	}
	return nil
}

// want checks the exit code.
func (r *toolRun) want(code int) error {
	if r.code() != code {
		return fmt.Errorf("%s exited %d, want %d: %s", r.name, r.code(), code, r.lastWords())
	}
	return nil
}

func (r *toolRun) path(stream string) string { return filepath.Join(r.dir, r.name+"."+stream) }

// said is all that the run printed, standard output first.
func (r *toolRun) said() string { return r.output() + r.read("err") }

// output is what the run printed to standard output.
func (r *toolRun) output() string { return r.read("out") }

func (r *toolRun) read(stream string) string {
	text, err := os.ReadFile(r.path(stream))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// lastWords is what the run said of its end, on one line, and where the rest is: the first line of its error, where it has
// one, and the last lines of all.
func (r *toolRun) lastWords() string {
	lines := strings.Split(strings.TrimSpace(r.said()), "\n")
	words := lines[max(0, len(lines)-4):]
	if first, _, several := strings.Cut(strings.TrimSpace(r.read("err")), "\n"); several {
		words = append([]string{first, "…"}, words...)
	}
	return fmt.Sprintf("%s (%s)", strings.Join(words, " | "), r.path("out"))
}

// plan asks the tool for its plan.
func (b *bed) plan(ctx context.Context, name string) (toolPlan, error) {
	r, err := b.runTool(ctx, readLimit, name, "plan", "-f", b.clusterFile, "--output", "json")
	if err != nil {
		return toolPlan{}, err
	}
	if err := r.want(0); err != nil {
		return toolPlan{}, err
	}
	return readPlan(r.output())
}

// upgrade runs the upgrade to its end, and returns its events even when it failed.
func (b *bed) upgrade(ctx context.Context, name string) (*toolRun, []toolEvent, error) {
	known, err := runsOf(b.data)
	if err != nil {
		return nil, nil, err
	}
	r, err := b.runTool(ctx, upgradeLimit, name, "upgrade", "-f", b.clusterFile, "--yes")
	if err != nil {
		return r, nil, err
	}
	run, err := newRun(b.data, known)
	if err != nil {
		return r, nil, errors.Join(r.want(0), err)
	}
	events, err := readEvents(run)
	return r, events, errors.Join(r.want(0), err)
}

// newRun returns the one run directory that is not among known.
func newRun(data string, known []string) (string, error) {
	runs, err := runsOf(data)
	if err != nil {
		return "", err
	}
	runs = slices.DeleteFunc(runs, func(run string) bool { return slices.Contains(known, run) })
	if len(runs) != 1 {
		return "", fmt.Errorf("%d new run directories in %s, want one: %v", len(runs), data, runs)
	}
	return runs[0], nil
}
