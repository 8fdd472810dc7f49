package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialAttempts is how often a connection cut before authentication is tried: sshd's MaxStartups drops
// connections at random when many come at once.
const dialAttempts = 4

// dial connects within ConnectTimeout.
func (h *Host) dial(ctx context.Context) (*conn, error) {
	limit := h.cfg.ConnectTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &limitError{limit})
	defer cancel()
	keys, err := loadHostKeys(first(h.cfg.KnownHostsFiles), h.target())
	if err != nil {
		return nil, h.connectError("known hosts", ErrHostKeyUnknown, err)
	}
	auth, done, err := authMethod(ctx, first(h.cfg.KeyFiles))
	if err != nil {
		return nil, h.connectError("keys", ErrAuth, err)
	}
	defer done()
	for attempt := 1; ; attempt++ {
		c, err := h.handshake(ctx, keys, auth)
		if err == nil || attempt == dialAttempts || !cutBeforeAuth(err) {
			return c, err
		}
		pause := time.Duration(100+rand.IntN(400*attempt)) * time.Millisecond
		if sleep(ctx, pause) != nil {
			return nil, err
		}
	}
}

// handshake makes one attempt. The end of ctx closes the connection, whatever it waits for then:
// ssh.ClientConfig.Timeout would cover the TCP connect only (golang/go#51926).
func (h *Host) handshake(ctx context.Context, keys *hostKeys, auth ssh.AuthMethod) (*conn, error) {
	nc, err := h.cfg.Dial(ctx, "tcp", h.target())
	if err != nil {
		return nil, h.connectError(phaseTCP, ErrUnreachable, reason(ctx, err))
	}
	wire := &wire{Conn: nc}
	wire.at(phaseBanner)
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	var keyErr error
	sc, chans, reqs, err := ssh.NewClientConn(wire, h.target(), &ssh.ClientConfig{
		User:              h.cfg.User,
		Auth:              []ssh.AuthMethod{auth},
		ClientVersion:     "SSH-2.0-kuberung",
		HostKeyAlgorithms: keys.algorithms(),
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			keyErr = keys.check(key)
			wire.at(phaseAuth)
			return keyErr
		},
	})
	cut := !stop()
	if err == nil && cut {
		sc.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		nc.Close()
		return nil, h.handshakeError(ctx, wire.phase(), keys, keyErr, err)
	}
	return newConn(h.cfg.Name, ssh.NewClient(sc, chans, reqs), h.tune), nil
}

func (h *Host) handshakeError(ctx context.Context, phase string, keys *hostKeys, keyErr, err error) error {
	var none *ssh.AlgorithmNegotiationError
	switch {
	case errors.Is(keyErr, ErrHostKeyChanged):
		return h.connectError(phaseKey, ErrHostKeyChanged, keyErr)
	case keyErr != nil:
		return h.connectError(phaseKey, ErrHostKeyUnknown, keyErr)
	case ctx.Err() != nil:
		return h.connectError(phase, ErrUnreachable, context.Cause(ctx))
	case errors.As(err, &none) && len(keys.algorithms()) > 0:
		return h.connectError(phaseKey, ErrHostKeyChanged, keys.noCommon(none))
	case phase == phaseAuth && (strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "ssh: disconnect")):
		return h.connectError(phase, ErrAuth, fmt.Errorf("user %s: %w", h.cfg.User, err))
	}
	return h.connectError(phase, ErrUnreachable, err)
}

func (h *Host) connectError(phase string, kind, err error) error {
	return &ConnectError{Host: h.cfg.Name, Address: h.target(), Phase: phase, Kind: kind, Err: err}
}

// cutBeforeAuth: the server hung up before it had seen who we are.
func cutBeforeAuth(err error) bool {
	var ce *ConnectError
	return errors.As(err, &ce) && ce.Kind == ErrUnreachable && (ce.Phase == phaseBanner || ce.Phase == phaseKey) &&
		(errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

// The phases of a connection, as people read them after "connect to cp1 (10.0.0.1:22):".
const (
	phaseTCP    = "tcp connect"
	phaseBanner = "ssh banner"
	phaseKey    = "host key"
	phaseAuth   = "authentication"
)

// wire notes how far a handshake came.
type wire struct {
	net.Conn
	now atomic.Value // string
}

func (w *wire) at(phase string) { w.now.Store(phase) }

func (w *wire) phase() string { return w.now.Load().(string) }

// Read moves on from the banner with the first byte.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.now.CompareAndSwap(phaseBanner, phaseKey)
	}
	return n, err
}

// limitError is the cause of a context that one of our own limits ended.
type limitError struct{ limit time.Duration }

func (e *limitError) Error() string { return fmt.Sprintf("no end after %v", e.limit) }

// Is makes the limit match context.DeadlineExceeded.
func (e *limitError) Is(target error) bool { return target == context.DeadlineExceeded }

// reason prefers the cause of an ended context to the error it produced.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// sleep waits for d or for the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}
