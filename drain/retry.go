package drain

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Bounds of a read or a small write: an API server may restart or fail over meanwhile.
const (
	attempts    = 4
	callTimeout = 30 * time.Second
	patience    = 30 * time.Second // how long an answer that seems final must last to be believed
)

// persist calls do until it succeeds, a few times, with a pause between. A conflict is tried again at once.
// The error is that of the last attempt.
func persist(ctx context.Context, pause time.Duration, do func(context.Context) error) error {
	for try := 1; ; try++ {
		err := call(ctx, do)
		if err == nil || try == attempts || !mayPass(err) {
			return err
		}
		if !apierrors.IsConflict(err) && !sleep(ctx, pause) {
			return err
		}
	}
}

// call runs do with its own limit, so that one request that hangs does not use up the caller's time.
func call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return do(ctx)
}

// sleep waits, and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// mayPass reports whether the same request may succeed later. An answer that the API server gave about the request
// itself stays the same; no answer, an overload or a server in trouble may pass.
func mayPass(err error) bool {
	switch {
	case errors.Is(err, errUnknownWindow):
		return false
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err),
		apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		return false
	}
	return true
}

// doubt believes an answer only when it lasts: an API server that is starting also says "forbidden" or "not found".
type doubt struct{ since time.Time }

// confirmed takes note of one more answer and reports whether it has seemed final for long enough.
func (d *doubt) confirmed(final bool) bool {
	switch {
	case !final:
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = time.Now()
	}
	return final && time.Since(d.since) >= patience
}
