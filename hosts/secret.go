package hosts

import (
	"context"
	"errors"
	"log/slog"
)

// Secret is a password or passphrase. No way of printing it, of logging it or of encoding it shows it.
type Secret struct{ text string }

// NewSecret keeps text from being shown.
func NewSecret(text string) Secret { return Secret{text} }

const shown = "***"

// String does not show the secret.
func (Secret) String() string { return shown }

// GoString does not show the secret.
func (Secret) GoString() string { return shown }

// LogValue does not show the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText does not show the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(shown), nil }

// Question is what a person is asked for a secret.
type Question struct {
	Host string // the operator's name of the host; empty for what is not of one host
	What string // "passphrase of /home/ops/.ssh/id_ed25519", "sudo password of ops"
	// Again is why the last answer was no good; nil when it is asked for the first time.
	Again error
}

// Ask gets a secret from a person. It is called for one question at a time, and the answer is kept for the
// network's life. An error that matches [ErrNobody] says that nobody is there to answer.
type Ask func(context.Context, Question) (Secret, error)

// ErrNobody: a secret was needed and there is no terminal to ask on.
var ErrNobody = errors.New("nobody can be asked")
