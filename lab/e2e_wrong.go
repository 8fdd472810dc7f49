package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// otherHostKey writes a known_hosts file in which h has a key that is not its own, and returns its path.
func (b *bed) otherHostKey(h host) (string, error) {
	known, err := os.ReadFile(filepath.Join(b.lab.State, "known_hosts"))
	if err != nil {
		return "", err
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for line := range strings.Lines(string(known)) {
		if name, _, _ := strings.Cut(line, " "); name != h.Address {
			lines.WriteString(line)
		}
	}
	lines.WriteString(h.Address + " " + string(ssh.MarshalAuthorizedKey(key)))
	path := filepath.Join(b.dir, "known_hosts-other-key")
	return path, os.WriteFile(path, []byte(lines.String()), 0o600)
}

// brokenArtifacts makes a folder of artifacts like the lab's, but with spoil done to the target's kubelet, and returns its
// path. Its files are links: an artifact is hundreds of megabytes.
func (b *bed) brokenArtifacts(name string, spoil func(path string) error) (string, error) {
	from := filepath.Join(newLab(b.lab).builder.artifactsDir(), b.to)
	folder := filepath.Join(b.dir, "artifacts-"+name)
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(folder, b.to, below)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		return os.Symlink(path, to)
	})
	if err != nil {
		return "", err
	}
	return folder, spoil(filepath.Join(folder, b.to, platform, "kubelet"))
}

// strangerTo is a host beside the nodes of a shape that is no node: reached like one, and with nothing of Kubernetes on it.
func strangerTo(s shape) host {
	return host{Name: "stranger", Hostname: "stranger", Address: "10.77.0.99", Role: loadBalancer, shape: s.Name}
}

// startStranger boots the stranger, and returns the path of a known_hosts file that knows it too.
func (b *bed) startStranger(ctx context.Context, h host) (string, error) {
	if err := b.startBeside(ctx, h); err != nil {
		return "", err
	}
	keys, err := h.hostKeys(ctx)
	if err != nil {
		return "", err
	}
	known, err := os.ReadFile(filepath.Join(b.lab.State, "known_hosts"))
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, "known_hosts-with-stranger")
	return path, os.WriteFile(path, append(known, keys...), 0o600)
}

// startBeside boots hosts that are not of the shape. They have its label, and so go with `down` even if removeBeside is
// never reached.
func (b *bed) startBeside(ctx context.Context, beside ...host) error {
	l := newLab(b.lab)
	image, err := l.build(ctx)
	if err != nil {
		return err
	}
	for _, h := range beside {
		own, err := l.ownFiles(h)
		if err != nil {
			return err
		}
		if err := h.create(ctx, b.lab.Shape.network(), image, b.lab.From); err != nil {
			return err
		}
		if err := h.put(ctx, own...); err != nil {
			return err
		}
	}
	return startHosts(ctx, beside)
}

// removeBeside removes what startBeside made.
func (b *bed) removeBeside(ctx context.Context, beside ...host) error {
	var errs []error
	for _, h := range beside {
		_, container := docker(ctx, "rm", "--force", h.container())
		_, volume := docker(ctx, "volume", "rm", "--force", h.volume())
		errs = append(errs, container, volume)
	}
	return errors.Join(errs...)
}
