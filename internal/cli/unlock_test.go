package cli

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/steps"
)

// locked is a cluster with bert's locks, on itself and on two hosts.
func locked(change func(*steps.Held)) steps.Beside {
	cluster := ofBert()
	change(&cluster)
	b := steps.Beside{Lock: &cluster}
	for _, name := range []string{"w-1", "w-2"} {
		host := cluster
		host.Host = name
		b.HostLocks = append(b.HostLocks, host)
	}
	return b
}

func TestUnlock(t *testing.T) {
	fresh, old := func(*steps.Held) {}, func(h *steps.Held) { h.Age = time.Hour }
	dead := func(h *steps.Held) { h.Over = true }
	stopped := make(chan struct{})
	close(stopped)
	silence, _ := io.Pipe()
	const nobody = "nobody answers: give --yes-i-know=bert@laptop to remove the lock without asking; nothing was removed"
	tests := []struct {
		name    string
		found   steps.Beside
		typed   string
		known   string
		code    int
		want    string
		removed string
		asked   bool
	}{
		{"his name", locked(fresh), "bert@laptop\n", "", codeDone, "", "bert@laptop", true},
		{"another name", locked(fresh), "anna@laptop\n", "", codeStopped, "not confirmed; nothing was removed", "", true},
		{"yes is not enough", locked(fresh), "yes\n", "", codeStopped, "not confirmed; nothing was removed", "", true},
		{"nobody", locked(fresh), "", "", codeUsage, nobody, "", true},
		{"named before", locked(fresh), "", "bert@laptop", codeDone, "", "bert@laptop", false},
		{"another named before", locked(fresh), "bert@laptop\n", "anna@laptop", codeUsage, "the lock is that of bert@laptop, not of anna@laptop; nothing was removed", "", false},
		{"expired", locked(old), "", "", codeDone, "", "bert@laptop", false},
		{"ended", locked(dead), "", "", codeDone, "", "bert@laptop", false},
		{"no lock", steps.Beside{}, "", "", codeDone, "", "", false},
		{"not to be read", steps.Beside{LockErr: errors.New("connection refused")}, "", "", codeFailed,
			"the lock of the cluster could not be read: connection refused", "", false},
		{"a host not to be read", steps.Beside{Failed: map[string]error{"w-1": errors.New("no route")}}, "", "", codeFailed,
			"the lock of w-1 could not be read, if it has one it expires by itself: no route", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			removed := ""
			err := unlock(t.Context(), Process{In: strings.NewReader(tt.typed), Out: &out}, "prod", tt.found, tt.known, func(o steps.Owner) error {
				removed += o.Name
				if len(o.Held) != 3 {
					t.Errorf("removed are %d locks, want 3", len(o.Held))
				}
				return nil
			})
			if code, text := codeOf(err); code != tt.code || text != tt.want || removed != tt.removed {
				t.Errorf("got %d, %q, removed %q", code, text, removed)
			}
			if asked := strings.Contains(out.String(), "Type bert@laptop to remove its lock: "); asked != tt.asked {
				t.Errorf("asked %v:\n%s", asked, out.String())
			}
		})
	}
	err := unlock(t.Context(), Process{In: silence, Out: io.Discard, Stop: stopped}, "prod", locked(fresh), "", nil)
	if code, _ := codeOf(err); code != codeStopped {
		t.Errorf("Ctrl-C at the question gives %d", code)
	}
}

func TestUnlockShowsTheHolder(t *testing.T) {
	var out strings.Builder
	err := unlock(t.Context(), Process{In: strings.NewReader("bert@laptop\n"), Out: &out}, "prod", locked(func(*steps.Held) {}), "", func(steps.Owner) error { return nil })
	want := `bert@laptop is at work on this cluster: upgrade to v1.36.3, since 2026-12-01 03:12:45, pid 4711, last heartbeat 12s ago
It also has the lock of w-1, w-2.
If that run is alive, it ends within a minute, in the middle of what it does, as by a second Ctrl-C. Better
make sure first that it is dead: process 4711 on its machine.
Type bert@laptop to remove its lock: The lock of bert@laptop is removed.
`
	if d := cmp.Diff(want, out.String()); err != nil || d != "" {
		t.Errorf("error %v (-want +got):\n%s", err, d)
	}
}

// A cluster file without a target is enough, and a cluster that cannot be asked is told.
func TestUnlockOfAClusterThatCannotBeAsked(t *testing.T) {
	s := newSite(t, strings.Replace(clusterFile(closedPort(t)), "target: v1.36.3\n", "", 1))
	got := try(t, "", "unlock", "-f", s.file)
	if got.code != codeFailed || got.out != "" || !strings.Contains(got.err, "the lock of the cluster could not be read: ") ||
		!strings.Contains(got.err, "the lock of cp-1 could not be read") {
		t.Errorf("%d\n%s%s", got.code, got.out, got.err)
	}
}
