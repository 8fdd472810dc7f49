package hosts

import (
	"context"
	"fmt"
	"sync"
)

// refusal is a password that a host did not take, and what it said.
type refusal struct {
	secret Secret
	why    error
}

// account is one password that several hosts may take: that of a user, or that of a file. Until a host has accepted it
// only one host at a time is tried with it, and what one has refused and none accepted is not tried on another: an
// account that many hosts share would be locked.
type account struct {
	turn chan struct{}

	mu      sync.Mutex
	good    Secret // accepted by some host; empty: none yet
	refused refusal
}

// account returns the one under a name.
func (n *Network) account(name string) *account {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.accounts == nil {
		n.accounts = map[string]*account{}
	}
	a := n.accounts[name]
	if a == nil {
		a = &account{turn: make(chan struct{}, 1)}
		n.accounts[name] = a
	}
	return a
}

// enter waits for the turn, unless a password is known to be good.
func (a *account) enter(ctx context.Context, h *Host) (leave func(), err error) {
	if good, _ := a.state(); good != (Secret{}) {
		return func() {}, nil
	}
	if err := take(ctx, a.turn, h); err != nil {
		return nil, err
	}
	return func() { <-a.turn }, nil
}

func (a *account) state() (good Secret, refused refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.good, a.refused
}

func take(ctx context.Context, turn chan struct{}, h *Host) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting to try the sudo password of %s: %w", h.cfg.User, context.Cause(ctx))
	}
}
