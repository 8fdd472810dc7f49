package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// label marks everything that the lab makes in the Docker engine. Its value says what a thing belongs to: the name of a
// running shape, "image" for the image of hosts, "saved-<name>" for a saved lab.
const label = "kuberung-lab"

// fromLabel says which version a host was made with.
const fromLabel = "kuberung-lab-from"

// docker runs one Docker command and returns what it prints.
func docker(ctx context.Context, args ...string) (string, error) {
	return command{Argv: append([]string{"docker"}, args...)}.run(ctx)
}

// labelled lists the things of one kind (container, volume, network, image) that carry the label with value.
func labelled(ctx context.Context, kind, value string) ([]string, error) {
	args := []string{kind, "ls", "-q", "--filter", "label=" + label + "=" + value}
	if kind == "container" {
		args = append(args, "-a")
	}
	out, err := docker(ctx, args...)
	return strings.Fields(out), err
}

// engineAnswers returns nil if a Docker engine answers.
func engineAnswers(ctx context.Context) error {
	_, err := docker(ctx, "version", "--format", "{{.Server.Version}}")
	return err
}

// engineFile is where the process id of an engine that the lab started stands.
func (c cache) engineFile() string { return filepath.Join(c.dir, "dockerd.pid") }

// startEngine starts Docker's engine if none answers. It runs on after the lab command ends, until stopEngine.
func (c cache) startEngine(ctx context.Context) error {
	asked := engineAnswers(ctx)
	if asked == nil {
		return nil
	}
	binary, err := exec.LookPath("dockerd")
	if err != nil {
		return fmt.Errorf("no Docker engine answers (%v), and none can be started: %w", asked, err)
	}
	say("starting a Docker engine")
	if err := os.MkdirAll(filepath.Join(c.dir, "logs"), 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.dir, "logs", "dockerd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	engine := exec.Command(binary) // not bound to ctx: it must outlive this command
	engine.Stdout, engine.Stderr = log, log
	engine.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := engine.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Wait() }()
	if err := os.WriteFile(c.engineFile(), []byte(strconv.Itoa(engine.Process.Pid)), 0o644); err != nil {
		return err
	}
	return await(ctx, "Docker engine (log: "+log.Name()+")", time.Minute, func(ctx context.Context) error {
		select {
		case err := <-ended:
			return fmt.Errorf("it ended: %v", err)
		default:
		}
		return engineAnswers(ctx)
	})
}

// stopEngine ends the engine that startEngine started, and no other: the process must still be a dockerd.
func (c cache) stopEngine(ctx context.Context) error {
	text, err := os.ReadFile(c.engineFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read %s: %w", c.engineFile(), err)
	}
	if isEngine(pid) {
		say("stopping the Docker engine that the lab started")
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("stop dockerd (%d): %w", pid, err)
		}
		err := await(ctx, "end of dockerd", time.Minute, func(context.Context) error {
			if isEngine(pid) {
				return fmt.Errorf("process %d still runs", pid)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return os.Remove(c.engineFile())
}

// isEngine tells whether process pid is a running Docker engine. (One that has ended and waits for its parent has no
// command line.)
func isEngine(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := strings.Cut(string(line), "\x00")
	return err == nil && filepath.Base(name) == "dockerd"
}
