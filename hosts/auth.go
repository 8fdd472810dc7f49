package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// authMethod offers the key in file, or all keys of the agent if file is empty.
// done must be called after the handshake.
func authMethod(ctx context.Context, file string) (m ssh.AuthMethod, done func(), err error) {
	if file == "" {
		return agentMethod(ctx)
	}
	file, err = expandHome(file)
	if err != nil {
		return nil, nil, err
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.ParsePrivateKey(pem)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		return nil, nil, fmt.Errorf("key file %s has a passphrase: load it into ssh-agent and leave the key file out", file)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("key file %s: %w", file, err)
	}
	return ssh.PublicKeys(signer), func() {}, nil
}

func agentMethod(ctx context.Context) (ssh.AuthMethod, func(), error) {
	sock := os.Getenv("SSH_AUTH_SOCK")
	if sock == "" {
		return nil, nil, errors.New("no key file given, and SSH_AUTH_SOCK names no agent")
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "unix", sock)
	if err != nil {
		return nil, nil, fmt.Errorf("ssh agent: %w", err)
	}
	if d, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(d) // a unix socket has deadlines
	}
	signers, err := agent.NewClient(nc).Signers()
	if err == nil && len(signers) == 0 {
		err = errors.New("holds no keys")
	}
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("ssh agent at %s: %w", sock, err)
	}
	return ssh.PublicKeys(signers...), func() { nc.Close() }, nil
}

// expandHome replaces a leading ~/ by the home directory.
func expandHome(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, rest), nil
}
