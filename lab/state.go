package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	_ "embed"
	"encoding/pem"
	"errors"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
)

//go:embed workloads.yaml
var workloads []byte

// makeKey writes the lab's SSH key pair into the state folder unless it is there.
func (l *lab) makeKey() error {
	if _, err := os.Stat(l.statePath("id_ed25519.pub")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(l.State, 0o755); err != nil {
		return err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "kuberung lab")
	if err != nil {
		return err
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.statePath("id_ed25519"), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	return os.WriteFile(l.statePath("id_ed25519.pub"), ssh.MarshalAuthorizedKey(line), 0o644)
}

// writeHostKeys writes the known_hosts file of the lab.
func (l *lab) writeHostKeys(ctx context.Context) error {
	var all strings.Builder
	for _, h := range l.Shape.Hosts {
		lines, err := h.hostKeys(ctx)
		if err != nil {
			return err
		}
		all.WriteString(lines)
	}
	return os.WriteFile(l.statePath("known_hosts"), []byte(all.String()), 0o644)
}

// writeKubeconfig copies the administrator's kubeconfig from a control plane. It names the cluster's endpoint, which the
// machine reaches directly.
func (l *lab) writeKubeconfig(ctx context.Context, from host) error {
	text, err := from.exec(ctx, "cat", "/etc/kubernetes/admin.conf")
	if err != nil {
		return err
	}
	return os.WriteFile(l.statePath("kubeconfig"), []byte(text), 0o600)
}

// writeClusterFile writes the cluster file that drives the product against this lab.
func (l *lab) writeClusterFile() error {
	text, err := render("cluster.yaml", l.page(host{}))
	if err != nil {
		return err
	}
	return os.WriteFile(l.statePath("cluster.yaml"), text, 0o644)
}

// applyWorkloads starts what the tests watch.
func (l *lab) applyWorkloads(ctx context.Context) error {
	say("applying the workloads")
	_, err := l.kubectl(ctx, workloads, "apply", "--filename=-")
	return err
}
