package hosts

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

// passphraseTries is how often a person may mistype one passphrase.
const passphraseTries = 3

// keyring holds the private keys read from files, each unlocked at most once for all hosts.
type keyring struct {
	secrets *secrets

	mu      sync.Mutex
	turns   map[string]chan struct{} // by file: one token while it is unlocked
	signers map[string]ssh.Signer
	failed  map[string]error // files that nobody could unlock: who was asked once is not asked again by the next host
}

func newKeyring(s *secrets) *keyring {
	return &keyring{secrets: s, turns: map[string]chan struct{}{}, signers: map[string]ssh.Signer{}, failed: map[string]error{}}
}

// load gives the key in file. Of one with a passphrase it gives what the agent holds of it, or a *lockedKey as long as
// nobody has unlocked it; a *[blindKeyError] if the file does not show whose key it is. A file with a public key stands
// for the private half in the agent.
func (r *keyring) load(file string, held []identity) (ssh.Signer, error) {
	if s := r.known(file); s != nil {
		return s, nil
	}
	signer, public, err := parseKeyFile(file)
	if err != nil {
		return nil, err
	}
	if signer != nil {
		r.keep(file, signer)
		return signer, nil
	}
	if public == nil {
		return nil, &blindKeyError{file}
	}
	if id := find(held, public); id != nil {
		return id.Signer, nil
	}
	if isPublicKeyFile(file) {
		return nil, fmt.Errorf("key file %s is a public key, and the agent does not hold its private half", file)
	}
	return &lockedKey{file: file, public: public}, nil
}

func (r *keyring) known(file string) ssh.Signer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signers[file]
}

func (r *keyring) keep(file string, s ssh.Signer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signers[file] = s
}

// parseKeyFile gives the signer of a key without passphrase, else its public half, as far as that is to be seen.
func parseKeyFile(file string) (ssh.Signer, ssh.PublicKey, error) {
	pem, err := readKeyFile(file)
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err == nil {
		return signer, nil, nil
	}
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		if locked.PublicKey != nil {
			return nil, locked.PublicKey, nil
		}
		public, _ := readPublicKey(file + ".pub") // an old form of file does not show it; not there is fine
		return nil, public, nil
	}
	if public, _, _, _, notPublic := ssh.ParseAuthorizedKey(pem); notPublic == nil {
		return nil, public, nil
	}
	return nil, nil, fmt.Errorf("key file %s: %w", file, err)
}

func isPublicKeyFile(file string) bool {
	_, err := readPublicKey(file)
	return err == nil
}

func readKeyFile(file string) ([]byte, error) {
	path, err := expandHome(file)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// unlock asks for the passphrase of a key file. Callers that come together share one answer.
func (r *keyring) unlock(ctx context.Context, file string) (ssh.Signer, error) {
	turn := r.turn(file)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the passphrase of %s: %w", file, context.Cause(ctx))
	}
	r.mu.Lock()
	signer, err := r.signers[file], r.failed[file]
	r.mu.Unlock()
	if signer != nil || err != nil {
		return signer, err
	}
	signer, err = r.open(ctx, file)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.signers[file] = signer
	case ctx.Err() == nil:
		r.failed[file] = err
	}
	return signer, err
}

// open asks until a passphrase opens the file.
func (r *keyring) open(ctx context.Context, file string) (ssh.Signer, error) {
	pem, err := readKeyFile(file)
	if err != nil {
		return nil, err
	}
	q, last := Question{What: "passphrase of " + file}, Secret{}
	for range passphraseTries {
		if last, err = r.secrets.get(ctx, q.What, q, last); err != nil {
			return nil, &passphraseError{fmt.Errorf("%w; load the key into ssh-agent to do without", err)}
		}
		if last.text == "" {
			q.Again = errors.New("that was none")
			continue
		}
		signer, err := ssh.ParsePrivateKeyWithPassphrase(pem, []byte(last.text))
		if err == nil {
			return signer, nil
		}
		if !errors.Is(err, x509.IncorrectPasswordError) {
			return nil, fmt.Errorf("key file %s: %w", file, err)
		}
		q.Again = errors.New("that passphrase does not open it")
	}
	return nil, &passphraseError{fmt.Errorf("key file %s: %w, after %d tries", file, q.Again, passphraseTries)}
}

// passphraseError matches ErrPassphrase without saying it.
type passphraseError struct{ why error }

func (e *passphraseError) Error() string   { return e.why.Error() }
func (e *passphraseError) Unwrap() []error { return []error{ErrPassphrase, e.why} }

func (r *keyring) turn(file string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns[file] == nil {
		r.turns[file] = make(chan struct{}, 1)
	}
	return r.turns[file]
}

// lockedKey stands for a key whose passphrase nobody has given yet. Asked to sign, which happens only when the host
// would take it, it says so: the handshake ends, and a person has all the time they need.
type lockedKey struct {
	file   string
	public ssh.PublicKey
	wanted atomic.Bool
}

// blindKeyError: a key that must be unlocked before anybody can tell if a host would take it.
type blindKeyError struct{ file string }

func (e *blindKeyError) Error() string { return "key file " + e.file + ": " + errLocked.Error() }

var errLocked = errors.New("the key needs its passphrase")

// PublicKey is the half that needs no passphrase.
func (k *lockedKey) PublicKey() ssh.PublicKey { return k.public }

// Sign notes that the key is wanted.
func (k *lockedKey) Sign(io.Reader, []byte) (*ssh.Signature, error) {
	k.wanted.Store(true)
	return nil, errLocked
}

// SignWithAlgorithm notes that the key is wanted.
func (k *lockedKey) SignWithAlgorithm(rand io.Reader, data []byte, _ string) (*ssh.Signature, error) {
	return k.Sign(rand, data)
}
