package steps

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPoll(t *testing.T) {
	refused, cause := errors.New("connection refused"), errors.New("interrupted")
	type try struct {
		done bool
		err  error
	}
	tests := []struct {
		name    string
		tries   []try // the last one goes on for ever
		cancel  time.Duration
		want    error
		problem string
		took    time.Duration
	}{
		{"at once", []try{{true, nil}}, 0, nil, "", 0},
		{"at last", []try{{false, refused}, {false, refused}, {true, nil}}, 0, nil, "", 4 * time.Second},
		{"done with an error is done", []try{{true, refused}}, 0, nil, "", 0},
		{"never", []try{{false, refused}}, 0, refused, "gave up after 11s: connection refused", 11 * time.Second},
		{"the last reason counts", []try{{false, errors.New("first")}, {false, errors.New("second")}, {false, refused}}, 0, refused,
			"gave up after 11s: connection refused", 11 * time.Second},
		{"a question's own limit is a reason", []try{{false, refused}, {false, fmt.Errorf("get: %w", context.DeadlineExceeded)}}, 0, context.DeadlineExceeded,
			"gave up after 11s: get: context deadline exceeded", 11 * time.Second},
		{"cancelled", []try{{false, refused}}, 3 * time.Second, cause, "interrupted", 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, func() { cancel(cause) })
				}
				began, n := time.Now(), 0
				err := poll(ctx, 11*time.Second, 2*time.Second, func(context.Context) (bool, error) {
					now := tt.tries[min(n, len(tt.tries)-1)]
					n++
					return now.done, now.err
				})
				if !errors.Is(err, tt.want) || err != nil && err.Error() != tt.problem {
					t.Errorf("error is %v, want %q", err, tt.problem)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// What asks is told when the limit is over: a call that hangs does not outlast it.
func TestPollEndsAHangingCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := poll(t.Context(), time.Minute, time.Second, func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("error is %v after %v, want the limit itself after a minute: there is no other reason", err, took)
		}
	})
}

// A question that the limit cut off says nothing; the answer before it does.
func TestTheLimitItselfIsNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := poll(t.Context(), time.Minute, time.Second, func(ctx context.Context) (bool, error) {
			if n++; n == 1 {
				return false, errors.New("connection refused")
			}
			<-ctx.Done()
			return false, ctx.Err()
		})
		if want := "gave up after 1m0s: connection refused"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})
}

// reasons gives a condition that says these things, one a second; the last one for ever.
func reasons(list ...string) condition {
	n := 0
	return func(context.Context) (string, error) {
		now := list[min(n, len(list)-1)]
		n++
		return now, nil
	}
}

func TestAwait(t *testing.T) {
	tests := []struct {
		name    string
		holds   condition
		settle  time.Duration
		problem string
		took    time.Duration
		said    []string
	}{
		{"holds, no need to settle", reasons(""), 0, "", 0, nil},
		{"holds for the settle time", reasons(""), 5 * time.Second, "", 5 * time.Second, nil},
		{"comes, then settles", reasons("etcd is behind", "etcd is behind", ""), 5 * time.Second, "", 7 * time.Second,
			[]string{"waiting: etcd is behind"}},
		{"a break starts the settling anew", reasons("", "", "", "", "the API server restarts", ""), 5 * time.Second, "", 10 * time.Second,
			[]string{"waiting: the API server restarts"}},
		{"each new reason is told once", reasons("a", "a", "b", "b", "a", ""), 0, "", 5 * time.Second,
			[]string{"waiting: a", "waiting: b", "waiting: a"}},
		{"reasons of several lines are told in one", reasons("a\n\tb", ""), 0, "", time.Second, []string{"waiting: a b"}},
		{"an error is a reason", func() condition {
			n := 0
			return func(context.Context) (string, error) {
				if n++; n == 1 {
					return "", errors.New("read node: connection refused")
				}
				return "", nil
			}
		}(), 0, "", time.Second, []string{"waiting: read node: connection refused"}},
		{"never", reasons("one\nof them is down"), 0, "gave up after 30s: one\nof them is down", 30 * time.Second,
			[]string{"waiting: one of them is down"}},
		{"holds, but never long enough", func() condition {
			n := 0
			return func(context.Context) (string, error) {
				if n++; n%4 == 0 {
					return "it flaps", nil
				}
				return "", nil
			}
		}(), 5 * time.Second, "gave up after 30s: it held, but not for 5s; before that: it flaps", 30 * time.Second, []string{"waiting: it flaps"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []string
				log := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
				began := time.Now()
				err := await(t.Context(), 30*time.Second, tt.settle, log, tt.holds)
				problem := ""
				if err != nil {
					problem = err.Error()
				}
				if problem != tt.problem {
					t.Errorf("error is %q, want %q", problem, tt.problem)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				if d := cmp.Diff(tt.said, said); d != "" {
					t.Errorf("said (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestAwaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("interrupted")
		time.AfterFunc(3*time.Second, func() { cancel(cause) })
		err := await(ctx, time.Hour, 0, func(string, ...any) {}, reasons("not yet"))
		if err != cause {
			t.Errorf("error is %v, want the cause", err)
		}
	})
}

func TestAllTellsTheFirst(t *testing.T) {
	asked := 0
	last := func(context.Context) (string, error) { asked++; return "", nil }
	broken := errors.New("broken")
	tests := []struct {
		name    string
		holds   condition
		missing string
		err     error
		asked   int
	}{
		{"all hold", all(last, last), "", nil, 2},
		{"the first does not", all(reasons("no"), last), "no", nil, 0},
		{"the second cannot be asked", all(last, func(context.Context) (string, error) { return "", broken }, last), "", broken, 1},
		{"none at all", all(), "", nil, 0},
	}
	for _, tt := range tests {
		asked = 0
		missing, err := tt.holds(t.Context())
		if missing != tt.missing || err != tt.err || asked != tt.asked {
			t.Errorf("%s: got %q, %v after %d, want %q, %v after %d", tt.name, missing, err, asked, tt.missing, tt.err, tt.asked)
		}
	}
}
