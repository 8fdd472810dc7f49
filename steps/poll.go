package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kuberung/kuberung/engine"
)

// poll asks every interval until done, and ends with the last reason when the limit is over.
func poll(ctx context.Context, limit, every time.Duration, ask func(context.Context) (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last error
	for {
		done, err := ask(limited)
		if done {
			return nil
		}
		if err != nil && (last == nil || limited.Err() == nil) { // at the limit a question is cut off: that is no reason
			last = err
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("gave up after %s: %w", limit, last)
		}
	}
}

// condition is something waited for: it says what is still missing, "" when it holds. An error is
// a reason too: what could not be asked does not hold.
type condition func(context.Context) (missing string, err error)

// await polls until the condition has held for the whole settle time, and reports each new reason.
func await(ctx context.Context, limit, settle time.Duration, log engine.Logf, holds condition) error {
	var since time.Time
	last := ""
	return poll(ctx, limit, time.Second, func(ctx context.Context) (bool, error) {
		missing, err := holds(ctx)
		if err != nil {
			missing = err.Error()
		}
		if missing == "" {
			if since.IsZero() {
				since = time.Now()
			}
			brief := "it held, but not for " + settle.String()
			if last != "" {
				brief += "; before that: " + last
			}
			return time.Since(since) >= settle, errors.New(brief)
		}
		since = time.Time{}
		if missing != last {
			log("waiting: %s", oneLine(missing))
			last = missing
		}
		return false, errors.New(missing)
	})
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// all joins conditions: the first that does not hold is the reason.
func all(conditions ...condition) condition {
	return func(ctx context.Context) (string, error) {
		for _, c := range conditions {
			if missing, err := c(ctx); missing != "" || err != nil {
				return missing, err
			}
		}
		return "", nil
	}
}

// firstFailure finds the failed lines in what /readyz answers: "[-]etcd failed: …".
func firstFailure(text string) string {
	var failed []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "[-]") {
			failed = append(failed, strings.TrimPrefix(line, "[-]"))
		}
	}
	if len(failed) == 0 {
		failed = strings.Fields(text)
	}
	if len(failed) > 12 {
		failed = failed[:12]
	}
	return strings.Join(failed, " ")
}
