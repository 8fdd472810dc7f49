package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialAttempts is how often a connection cut before authentication is tried: sshd's MaxStartups drops
// connections at random when many come at once.
const dialAttempts = 4

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial connects. What may take a person's time, and the way there, is not part of ConnectTimeout.
func (h *Host) dial(ctx context.Context) (*conn, error) {
	if err := h.completeOnce(ctx); err != nil {
		return nil, h.connectError(phaseConfig, ErrSSHConfig, err)
	}
	ctx, open, err := h.way(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := h.hostKeys()
	if err != nil {
		return nil, h.connectError("known hosts", ErrHostKeyUnknown, err)
	}
	for {
		c, wanted, err := h.dialOnce(ctx, open, keys)
		if wanted == nil {
			return c, err
		}
		if _, err := h.net.keys.unlock(ctx, wanted.file); err != nil {
			return nil, h.connectError("keys", ErrAuth, err)
		}
	}
}

// completeOnce completes the configuration before the first connection.
func (h *Host) completeOnce(ctx context.Context) error {
	if h.completed {
		return nil
	}
	full, err := h.complete(ctx, h.cfg)
	if err != nil {
		return err
	}
	h.cfg, h.completed = full, true
	return nil
}

// way gives the function that opens a connection to the host, and makes sure that the last hop before it stands.
func (h *Host) way(ctx context.Context) (context.Context, dialFunc, error) {
	open := h.cfg.Dial
	if open == nil {
		open = (&net.Dialer{}).DialContext
	}
	if len(h.cfg.Jump) == 0 {
		return ctx, open, nil
	}
	hop := h.net.hop(h.cfg.Jump, h.cfg.Dial)
	waiting, _ := ctx.Value(waitingKey{}).([]*Host)
	if hop == h || slices.Contains(waiting, hop) {
		return nil, nil, h.connectError(phaseJump, ErrUnreachable, errors.New("the jump hosts lead in a circle"))
	}
	ctx = context.WithValue(ctx, waitingKey{}, append(slices.Clone(waiting), h))
	if err := hop.Connect(ctx); err != nil {
		kind := ErrUnreachable
		var ce *ConnectError
		if errors.As(err, &ce) {
			kind = ce.Kind
		}
		return nil, nil, h.connectError(phaseJump, kind, err)
	}
	return ctx, hop.DialContext, nil
}

// waitingKey marks in a context which hosts wait for their jump host: one that waited for itself would wait for ever.
type waitingKey struct{}

// dialOnce connects within ConnectTimeout. wanted is a key that the host would take, or may take, if it were unlocked.
func (h *Host) dialOnce(ctx context.Context, open dialFunc, keys *hostKeys) (_ *conn, wanted *lockedKey, err error) {
	release, err := h.dialSlot(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	limit := h.cfg.ConnectTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &limitError{limit})
	defer cancel()
	ids, err := h.identities(ctx)
	var blind *blindKeyError
	if errors.As(err, &blind) {
		return nil, &lockedKey{file: blind.file}, err
	}
	if err != nil {
		return nil, nil, h.connectError("keys", ErrAuth, err)
	}
	defer ids.close()
	for attempt := 1; ; attempt++ {
		c, err := h.handshake(ctx, open, keys, ids)
		if err == nil {
			return c, nil, nil
		}
		for _, k := range ids.locked {
			if k.wanted.Load() {
				return nil, k, err
			}
		}
		if attempt == dialAttempts || !cutBeforeAuth(err) {
			return nil, nil, err
		}
		pause := time.Duration(100+rand.IntN(400*attempt)) * time.Millisecond
		if sleep(ctx, pause) != nil {
			return nil, nil, err
		}
	}
}

// dialSlot waits until few enough connections are being made, from here or through the last hop.
func (h *Host) dialSlot(ctx context.Context) (release func(), err error) {
	slots := h.net.dials
	if len(h.cfg.Jump) > 0 {
		slots = h.net.hop(h.cfg.Jump, h.cfg.Dial).dials
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, h.connectError(phaseTurn, ErrUnreachable, context.Cause(ctx))
	}
}

// handshake makes one attempt. The end of ctx closes the connection, whatever it waits for then:
// ssh.ClientConfig.Timeout would cover the TCP connect only (golang/go#51926).
func (h *Host) handshake(ctx context.Context, open dialFunc, keys *hostKeys, ids *identities) (*conn, error) {
	nc, err := open(ctx, "tcp", h.target())
	if err != nil {
		return nil, h.connectError(phaseTCP, ErrUnreachable, reason(ctx, plainNetError(err)))
	}
	wire := &wire{Conn: nc}
	wire.at(phaseBanner)
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	var keyErr error
	sc, chans, reqs, err := ssh.NewClientConn(wire, h.target(), &ssh.ClientConfig{
		User:              h.cfg.User,
		Auth:              []ssh.AuthMethod{ids.method()},
		ClientVersion:     "SSH-2.0-kuberung",
		HostKeyAlgorithms: keys.algorithms(),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			keyErr = keys.check(ctx, key)
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
		return nil, h.handshakeError(ctx, wire.phase(), keys, ids, keyErr, err)
	}
	if keys.accepted != "" {
		h.net.noteAccepted(h.name, keys.accepted)
	}
	return newConn(h.name, ssh.NewClient(sc, chans, reqs), wire, h.tune), nil
}

func (h *Host) handshakeError(ctx context.Context, phase string, keys *hostKeys, ids *identities, keyErr, err error) error {
	var none *ssh.AlgorithmNegotiationError
	switch {
	case errors.Is(keyErr, ErrHostKeyChanged):
		return h.connectError(phaseKey, ErrHostKeyChanged, keyErr)
	case keyErr != nil:
		return h.connectError(phaseKey, ErrHostKeyUnknown, keyErr)
	case ctx.Err() != nil:
		return h.connectError(phase, ErrUnreachable, context.Cause(ctx))
	case errors.As(err, &none) && none.What == "host key" && len(keys.recorded()) > 0:
		return h.connectError(phaseKey, ErrHostKeyChanged, keys.noCommon(none))
	case phase == phaseAuth && (strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "ssh: disconnect")):
		return h.connectError(phase, ErrAuth, h.refusal(ids, err))
	}
	return h.connectError(phase, ErrUnreachable, plainNetError(err))
}

// refusal says in plain words why the host did not let us in.
func (h *Host) refusal(ids *identities, err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "ssh: disconnect"):
		_, why, _ := strings.Cut(text, "ssh: disconnect, ")
		return fmt.Errorf("sshd hung up on user %s (%s); offered were %v", h.cfg.User, why, ids)
	case !strings.Contains(text, "publickey"):
		return fmt.Errorf("sshd takes no public key from user %s", h.cfg.User)
	default:
		return fmt.Errorf("user %s is refused with %v", h.cfg.User, ids)
	}
}

// plainNetError leaves out what the rest of the message says: "dial tcp 192.0.2.1:22: connect:".
func plainNetError(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return err
	}
	var call *os.SyscallError
	if errors.As(op.Err, &call) {
		return call.Err
	}
	return op.Err
}

func (h *Host) connectError(phase string, kind, err error) error {
	return &ConnectError{Host: h.name, Address: h.target(), Phase: phase, Kind: kind, Err: err}
}

// cutBeforeAuth: the server hung up before it had seen who we are.
func cutBeforeAuth(err error) bool {
	var ce *ConnectError
	return errors.As(err, &ce) && ce.Kind == ErrUnreachable && (ce.Phase == phaseBanner || ce.Phase == phaseKey) &&
		(errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

// The phases of a connection, as people read them after "connect to cp1 (10.0.0.1:22):".
const (
	phaseConfig = "configuration"
	phaseTurn   = "waiting for other connections being made"
	phaseJump   = "jump host"
	phaseTCP    = "tcp connect"
	phaseBanner = "ssh banner"
	phaseKey    = "host key"
	phaseAuth   = "authentication"
)

// wire notes how far a handshake came, and that nothing comes any more.
type wire struct {
	net.Conn
	now  atomic.Value // string
	over atomic.Bool
}

func (w *wire) at(phase string) { w.now.Store(phase) }

func (w *wire) phase() string { return w.now.Load().(string) }

// Read moves on from the banner with the first byte.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.now.CompareAndSwap(phaseBanner, phaseKey)
	}
	if err != nil {
		w.over.Store(true)
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
