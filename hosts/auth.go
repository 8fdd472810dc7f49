package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// identity is one key we can prove ourselves with.
type identity struct {
	ssh.Signer
	label string // "key file /home/ops/.ssh/id_ed25519", for people
}

// identities are all that are offered to one host, in order.
type identities struct {
	offered []identity
	locked  []*lockedKey // those of offered whose passphrase nobody has given yet
	unused  []string     // certificates of keys that nobody holds
	close   func()       // ends the connection to the agent
}

// method is how SSH offers them.
func (ids *identities) method() ssh.AuthMethod {
	signers := make([]ssh.Signer, len(ids.offered))
	for i, id := range ids.offered {
		signers[i] = id.Signer
	}
	return ssh.PublicKeys(signers...)
}

// String lists them for people.
func (ids *identities) String() string {
	var out []string
	for _, id := range ids.offered {
		out = append(out, id.label+" ("+id.PublicKey().Type()+" "+ssh.FingerprintSHA256(id.PublicKey())+")")
	}
	for _, file := range ids.unused {
		out = append(out, "not certificate "+file+", for whose key there is no private half")
	}
	return strings.Join(out, ", ")
}

// identities collects the keys that a configuration offers, in OpenSSH's order: certificates, keys that the agent holds
// of the files named, what else the agent holds, the files. close must be called after the handshake.
func (h *Host) identities(ctx context.Context) (_ *identities, err error) {
	ids := &identities{close: func() {}}
	defer func() {
		if err != nil {
			ids.close()
		}
	}()
	held, err := h.agentKeys(ctx, ids)
	if err != nil && len(h.cfg.KeyFiles) == 0 {
		return nil, err
	}
	fromFiles, err := h.fileKeys(held, ids)
	if err != nil {
		return nil, err
	}
	var keys, rest []identity
	for _, id := range fromFiles {
		if find(held, id.PublicKey()) != nil {
			keys = append(keys, id)
		} else {
			rest = append(rest, id)
		}
	}
	for _, id := range held {
		if h.everyAgentKey && find(keys, id.PublicKey()) == nil {
			keys = append(keys, id)
		}
	}
	keys = append(keys, rest...)
	certs, err := h.certificates(keys, ids)
	if err != nil {
		return nil, err
	}
	ids.offered = append(certs, keys...)
	if len(ids.offered) == 0 {
		return nil, errors.New("there is no key to offer: no key file is given or stands in ~/.ssh, and SSH_AUTH_SOCK names no agent that holds one")
	}
	return ids, nil
}

// find gives the identity with a public key, nil if there is none.
func find(ids []identity, key ssh.PublicKey) *identity {
	for i := range ids {
		if bytes.Equal(ids[i].PublicKey().Marshal(), key.Marshal()) {
			return &ids[i]
		}
	}
	return nil
}

// fileKeys reads the key files. A key that needs a passphrase, and is not in the agent, is asked for only when the
// host has said that it would take it; if the file does not show its public half, at once.
func (h *Host) fileKeys(held []identity, ids *identities) ([]identity, error) {
	var found []identity
	for _, file := range h.cfg.KeyFiles {
		signer, err := h.net.keys.load(file, held)
		if err != nil {
			return nil, err
		}
		if locked, ok := signer.(*lockedKey); ok {
			ids.locked = append(ids.locked, locked)
		}
		found = append(found, identity{signer, "key file " + file})
	}
	return found, nil
}

// agentKeys are the keys of the agent, in its order. Without an agent there are none; one that does not answer is an
// error, which matters only if no key file is named.
func (h *Host) agentKeys(ctx context.Context, ids *identities) ([]identity, error) {
	sock := h.cfg.Agent
	if sock == "" {
		sock = os.Getenv("SSH_AUTH_SOCK")
	}
	if sock == "" || sock == "none" {
		return nil, nil
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "unix", sock)
	if err != nil {
		return nil, fmt.Errorf("ssh agent: %w", err)
	}
	if d, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(d) // a unix socket has deadlines
	}
	// It may wait for somebody to touch a key, now and whenever it signs.
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	ids.close = func() { stop(); nc.Close() }
	signers, err := agent.NewClient(nc).Signers()
	if err != nil {
		return nil, fmt.Errorf("ssh agent at %s: %w", sock, reason(ctx, err))
	}
	var held []identity
	for _, s := range signers {
		held = append(held, identity{s, "agent key"})
	}
	return held, nil
}

// certificates pairs certificates with the keys they are for: those named, and KEYFILE-cert.pub beside a key.
func (h *Host) certificates(keys []identity, ids *identities) ([]identity, error) {
	files := h.cfg.CertificateFiles
	for _, file := range h.cfg.KeyFiles {
		files = append(files, existing(strings.TrimSuffix(file, ".pub")+"-cert.pub")...)
	}
	var found []identity
	for _, file := range files {
		cert, err := readCertificate(file)
		if err != nil {
			return nil, err
		}
		key := find(keys, cert.Key)
		if key == nil {
			ids.unused = append(ids.unused, file)
			continue
		}
		signer, err := ssh.NewCertSigner(cert, key.Signer)
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", file, err)
		}
		if find(found, cert) == nil {
			found = append(found, identity{signer, "certificate " + file + validity(cert, time.Now())})
		}
	}
	return found, nil
}

// validity says if a certificate's time is not now: the server will only say no.
func validity(c *ssh.Certificate, now time.Time) string {
	at := uint64(now.Unix())
	switch {
	case at < c.ValidAfter:
		return ", not valid before " + time.Unix(int64(c.ValidAfter), 0).UTC().Format(time.RFC3339)
	case c.ValidBefore != ssh.CertTimeInfinity && at >= c.ValidBefore:
		return ", expired " + time.Unix(int64(c.ValidBefore), 0).UTC().Format(time.RFC3339)
	}
	return ""
}

func readCertificate(file string) (*ssh.Certificate, error) {
	key, err := readPublicKey(file)
	if err != nil {
		return nil, err
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok || cert.CertType != ssh.UserCert {
		return nil, fmt.Errorf("%s is not an OpenSSH user certificate", file)
	}
	return cert, nil
}

func readPublicKey(file string) (ssh.PublicKey, error) {
	path, err := expandHome(file)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
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
