package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// createNetwork makes the shape's network unless it is there.
func (s shape) createNetwork(ctx context.Context) error {
	if _, err := docker(ctx, "network", "inspect", s.network()); err == nil {
		return nil
	}
	_, err := docker(ctx, "network", "create", "--label", label+"="+s.Name, "--subnet", s.Subnet, "--gateway", s.Gateway, s.network())
	return err
}

// create makes h's container from image, and its volume, without starting it.
//
// The container gets every capability but SYS_RESOURCE, which the machine may not have to give: what --privileged does, less
// that. /var is a volume because containerd's overlay cannot lie on Docker's.
func (h host) create(ctx context.Context, network, image string, from release) error {
	if _, err := docker(ctx, "volume", "create", "--label", label+"="+h.shape, h.volume()); err != nil {
		return err
	}
	_, err := docker(ctx, "create", "--name", h.container(), "--label", label+"="+h.shape, "--label", fromLabel+"="+from.Kubernetes,
		"--hostname", h.Hostname, "--network", network, "--ip", h.Address,
		"--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE", "--cgroupns", "private",
		"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--security-opt", "systempaths=unconfined",
		"--device", "/dev/kmsg", "--device-cgroup-rule", "a *:* rwm",
		"--tmpfs", "/run:exec", "--tmpfs", "/tmp:exec", "--volume", h.volume()+":/var",
		"--restart", "unless-stopped", "--stop-signal", "SIGRTMIN+3", "--stop-timeout", "60",
		"--entrypoint", "/usr/lib/lab/boot", image)
	return err
}

// startHosts boots the hosts, all at once, and waits until each one's systemd has finished.
func startHosts(ctx context.Context, hosts []host) error {
	if err := raiseLimits(); err != nil {
		return err
	}
	return each(ctx, hosts, func(ctx context.Context, h host) error {
		if _, err := docker(ctx, "start", h.container()); err != nil {
			return err
		}
		favourContainers()
		return h.awaitBoot(ctx)
	})
}

// stopHosts shuts the hosts down, all at once.
func stopHosts(ctx context.Context, hosts []host) error {
	return each(ctx, hosts, func(ctx context.Context, h host) error {
		_, err := docker(ctx, "stop", h.container())
		return err
	})
}

// each calls do for all hosts side by side and returns the first error.
func each(ctx context.Context, hosts []host, do func(context.Context, host) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, h := range hosts {
		all.Go(func() error {
			if err := do(ctx, h); err != nil {
				return fmt.Errorf("%s: %w", h.Name, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// awaitBoot waits until h's systemd has started everything. A failed unit ("degraded") is an error that names it.
func (h host) awaitBoot(ctx context.Context) error {
	return await(ctx, h.Name+" boots", 2*time.Minute, func(ctx context.Context) error {
		out, err := h.exec(ctx, "systemctl", "is-system-running")
		if strings.TrimSpace(out) == "running" {
			return nil
		}
		failed, _ := h.exec(ctx, "systemctl", "--failed", "--plain", "--no-legend")
		return fmt.Errorf("%s (failed units: %q): %w", strings.TrimSpace(out), strings.TrimSpace(failed), err)
	})
}

// state is what Docker says of h's container, such as running or exited; empty if there is none.
func (h host) state(ctx context.Context) (string, error) {
	out, err := docker(ctx, "container", "ls", "-a", "--filter", "name=^"+h.container()+"$", "--format", "{{.State}}")
	return strings.TrimSpace(out), err
}

// booted is when h's container was started. A host that does not run is an error.
func (h host) booted(ctx context.Context) (time.Time, error) {
	out, err := docker(ctx, "container", "inspect", "--format", "{{.State.Status}} {{.State.StartedAt}}", h.container())
	if err != nil {
		return time.Time{}, err
	}
	status, at, _ := strings.Cut(strings.TrimSpace(out), " ")
	if status != "running" {
		return time.Time{}, fmt.Errorf("%s is %s", h.Name, status)
	}
	started, err := time.Parse(time.RFC3339Nano, at)
	return started.Truncate(time.Second), err // the API's times are whole seconds
}

// exec runs argv as root on h and returns what it prints.
func (h host) exec(ctx context.Context, argv ...string) (string, error) {
	return docker(ctx, append([]string{"exec", h.container()}, argv...)...)
}

// has tells whether there is a file at path on h.
func (h host) has(ctx context.Context, path string) bool {
	_, err := h.exec(ctx, "test", "-e", path)
	return err == nil
}

// execLogged is exec with a log file and a limit of its own, for what may take long and fail in interesting ways.
func (h host) execLogged(ctx context.Context, log string, limit time.Duration, stdin io.Reader, argv ...string) error {
	_, err := command{
		Argv:  append([]string{"docker", "exec", "-i", h.container()}, argv...),
		Stdin: stdin,
		Log:   log,
		Limit: limit,
	}.run(ctx)
	return err
}

// put writes entries on h, running or not.
func (h host) put(ctx context.Context, entries ...entry) error {
	file, err := os.CreateTemp("", "kuberung-put-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := writeTar(file, entries); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = command{Argv: []string{"docker", "cp", "-", h.container() + ":/"}, Stdin: file}.run(ctx)
	return err
}

// write writes one small file, readable by root only, on a running host. Unlike put it reaches tmpfs and volumes.
func (h host) write(ctx context.Context, path string, data []byte) error {
	_, err := command{
		Argv:  []string{"docker", "exec", "-i", h.container(), "sh", "-c", `umask 077 && mkdir -p "$(dirname "$1")" && cat >"$1"`, "sh", path},
		Stdin: bytes.NewReader(data),
	}.run(ctx)
	return err
}

// hostKeys returns h's public SSH host keys as lines of a known_hosts file. They come through Docker, not from whoever
// answers at the address.
func (h host) hostKeys(ctx context.Context) (string, error) {
	out, err := h.exec(ctx, "sh", "-c", "cat /etc/ssh/ssh_host_*_key.pub")
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) >= 2 {
			lines.WriteString(h.Address + " " + fields[0] + " " + fields[1] + "\n")
		}
	}
	return lines.String(), nil
}

// importImages loads image archives into h's containerd.
func (h host) importImages(ctx context.Context, log string, archives []string) error {
	for _, path := range archives {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = h.execLogged(ctx, log, 5*time.Minute, file, "ctr", "-n", "k8s.io", "images", "import", "-")
		file.Close()
		if err != nil {
			return fmt.Errorf("import %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}
