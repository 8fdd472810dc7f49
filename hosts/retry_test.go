package hosts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Whether the limit falls into a pause or into an attempt, the last real reason is told.
func TestRetryEndsWithTheLastRealReason(t *testing.T) {
	broken := errors.New("no route to host")
	for name, attempt := range map[string]func(ctx context.Context, n int) error{
		"in a pause": func(context.Context, int) error { return broken },
		"in an attempt": func(ctx context.Context, n int) error {
			if n == 0 {
				return broken
			}
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := errors.New("limit")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, limit)
				defer cancel()
				n := -1
				err := New(Config{Address: "cp1"}).retry(ctx, func(error) bool { return true }, func() error {
					n++
					return attempt(ctx, n)
				})
				if !errors.Is(err, limit) || !errors.Is(err, broken) {
					t.Errorf("got %v, want the limit and the reason", err)
				}
			})
		})
	}
}
