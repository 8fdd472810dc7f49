package hosts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// errUntold: systemd did not say what state a unit is in.
var errUntold = errors.New("the unit's state could not be told")

// reconnectable errors may be cured by a new connection.
func reconnectable(err error) bool {
	return errors.Is(err, ErrConnLost) || errors.Is(err, ErrUnreachable) || errors.Is(err, context.DeadlineExceeded)
}

// neverSent errors are of requests that did not leave this machine.
func neverSent(err error) bool {
	var ce *ConnectError
	return errors.Is(err, errNotSent) || errors.As(err, &ce)
}

// passing errors are those of a host that may be on its way down or up: logins are refused then (pam_nologin)
// and systemd may not answer. Good while following, where waiting costs nothing.
func passing(err error) bool {
	return reconnectable(err) || errors.Is(err, ErrAuth) || errors.Is(err, errUntold)
}

// retry calls do until it succeeds or fails for a reason that time does not cure. Its limit is ctx,
// whose cause then comes with the last reason.
func (h *Host) retry(ctx context.Context, curable func(error) bool, do func() error) error {
	pause := h.tune.retryFrom
	var last error // before the attempt that the end of ctx may cut
	for {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) && last != nil:
			return fmt.Errorf("%w; before that: %w", err, last)
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case !curable(err):
			return err
		}
		jitter := time.Duration(rand.Int64N(int64(pause)/4 + 1))
		if cause := sleep(ctx, pause+jitter); cause != nil {
			return fmt.Errorf("%w; last: %w", cause, err)
		}
		pause, last = min(2*pause, h.tune.retryTo), err
	}
}
