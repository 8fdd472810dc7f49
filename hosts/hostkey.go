package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys is what known_hosts records of one target.
type hostKeys struct {
	db     *knownhosts.HostKeyDB
	file   string
	target string // host:port
}

// loadHostKeys reads file; empty: ~/.ssh/known_hosts. A file that is not there records nothing.
func loadHostKeys(file, target string) (*hostKeys, error) {
	if file == "" {
		file = "~/.ssh/known_hosts"
	}
	file, err := expandHome(file)
	if err != nil {
		return nil, err
	}
	files := []string{file}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		files = nil
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, err
	}
	return &hostKeys{db: db, file: file, target: target}, nil
}

// algorithms are those of the recorded keys, so that the server offers a key we can compare
// (golang/go#29286); empty for an unknown host, whose key is then only named in the error.
func (k *hostKeys) algorithms() []string { return k.db.HostKeyAlgorithms(k.target) }

// check compares the offered key with the record. Errors match ErrHostKeyUnknown or ErrHostKeyChanged.
func (k *hostKeys) check(key ssh.PublicKey) error {
	// The record is looked up by name; the address argument only has to have the form of one.
	err := k.db.HostKeyCallback()(k.target, &net.TCPAddr{IP: net.IPv4zero, Port: 22}, key)
	if err == nil {
		return nil
	}
	offered := key.Type() + " " + ssh.FingerprintSHA256(key)
	var bad *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		return fmt.Errorf("%w: %s:%d revokes the offered key (%s); do not connect", ErrHostKeyChanged, revoked.Revoked.Filename, revoked.Revoked.Line, offered)
	case errors.As(err, &bad) && len(bad.Want) > 0:
		return fmt.Errorf("%w: %s records %s, offered was %s; if the host was reinstalled, remove the old entry with: ssh-keygen -f %s -R %s; if not, somebody may be in between",
			ErrHostKeyChanged, records(bad.Want), fingerprints(bad.Want), offered, Quote(k.file), Quote(knownhosts.Normalize(k.target)))
	case errors.As(err, &bad):
		return fmt.Errorf("%w: %s has no entry for %s, offered was %s; compare with ssh-keygen -lf /etc/ssh/ssh_host_%s_key.pub on the host's console, then record it with: %s >> %s",
			ErrHostKeyUnknown, k.file, k.target, offered, keyFileType(key), k.keyscan(key), Quote(k.file))
	}
	return fmt.Errorf("%w: %s, offered was %s: %w", ErrHostKeyChanged, k.file, offered, err)
}

// noCommon explains a server that has none of the recorded types of key.
func (k *hostKeys) noCommon(err error) error {
	return fmt.Errorf("%w: %s records %s for %s, but the server has no such key: %w", ErrHostKeyChanged, k.file, strings.Join(k.algorithms(), ", "), k.target, err)
}

func (k *hostKeys) keyscan(key ssh.PublicKey) string {
	host, port, _ := net.SplitHostPort(k.target)
	return Quote("ssh-keyscan", "-t", keyFileType(key), "-p", port, host)
}

// keyFileType is the type of a key as ssh-keyscan and the names of sshd's key files spell it.
func keyFileType(key ssh.PublicKey) string {
	t := strings.TrimPrefix(key.Type(), "ssh-")
	if strings.HasPrefix(t, "ecdsa-") {
		return "ecdsa"
	}
	return t
}

func records(keys []xknownhosts.KnownKey) string {
	var out []string
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%s:%d", k.Filename, k.Line))
	}
	return strings.Join(out, ", ")
}

func fingerprints(keys []xknownhosts.KnownKey) string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Key.Type()+" "+ssh.FingerprintSHA256(k.Key))
	}
	return strings.Join(out, ", ")
}
