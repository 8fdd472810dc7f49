package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

// secrets remembers the answers of one run.
type secrets struct {
	ask Ask

	turn    chan struct{} // holds one token while a person is asked
	mu      sync.Mutex
	answers map[string]Secret
}

func newSecrets(ask Ask) *secrets {
	return &secrets{ask: ask, turn: make(chan struct{}, 1), answers: map[string]Secret{}}
}

// get gives the answer remembered under id, or asks q. With q.Again the answer refused is forgotten first; if somebody
// else has got another one meanwhile, that one is given. Callers that come together are asked one after another.
func (s *secrets) get(ctx context.Context, id string, q Question, refused Secret) (Secret, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return Secret{}, fmt.Errorf("waiting to ask for the %s: %w", q.What, context.Cause(ctx))
	}
	s.mu.Lock()
	answer, known := s.answers[id]
	s.mu.Unlock()
	if known && (q.Again == nil || answer != refused) {
		return answer, nil
	}
	if s.ask == nil {
		return Secret{}, fmt.Errorf("the %s is needed: %w", q.What, ErrNobody)
	}
	answer, err := s.ask(ctx, q)
	if err != nil {
		return Secret{}, fmt.Errorf("the %s is needed: %w", q.What, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[id] = answer
	return answer, nil
}
