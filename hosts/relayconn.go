package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
)

// relaySession opens a session on one of the connections that carry relays.
func (h *Host) relaySession(ctx context.Context) (*session, error) {
	select {
	case h.relaySlots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for one of %d relays to end: %w", cap(h.relaySlots), context.Cause(ctx))
	}
	for dead := 0; ; {
		c, err := h.relayConn(ctx)
		if err != nil {
			<-h.relaySlots
			return nil, err
		}
		ch, reqs, err := c.openOnce(ctx, "session", nil)
		if err == nil {
			return c.attach(ch, reqs, func() { <-c.slots; <-h.relaySlots }), nil
		}
		var full *ssh.OpenChannelError
		if errors.As(err, &full) {
			continue // MaxSessions is lower here: the slot stays taken, another connection is next
		}
		if dead++; !c.alive() && dead <= relayConns && ctx.Err() == nil {
			continue // found dead; relayConn forgets it
		}
		<-c.slots
		<-h.relaySlots
		return nil, err
	}
}

// relayConn gives a connection for relays with one of its slots taken.
func (h *Host) relayConn(ctx context.Context) (*conn, error) {
	select {
	case h.dialing <- struct{}{}:
		defer func() { <-h.dialing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the connection to %s: %w", h.name, context.Cause(ctx))
	}
	c, err := h.freeRelay()
	if c != nil || err != nil {
		return c, err
	}
	if c, err = h.dial(ctx); err != nil {
		return nil, err
	}
	c.slots <- struct{}{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		c.fail(net.ErrClosed)
		return nil, h.errClosed()
	}
	h.relays = append(h.relays, c)
	return c, nil
}

// freeRelay takes a slot of a connection that has one, and forgets the dead ones; nil if one must be dialled.
func (h *Host) freeRelay() (*conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.errClosed()
	}
	var live []*conn
	for _, c := range h.relays {
		if c.alive() {
			live = append(live, c)
		}
	}
	h.relays = live
	for _, c := range live {
		select {
		case c.slots <- struct{}{}:
			return c, nil
		default:
		}
	}
	if len(live) == relayConns {
		return nil, fmt.Errorf("sshd takes no more sessions on %d connections", relayConns)
	}
	return nil, nil
}
