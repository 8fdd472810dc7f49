package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// own is a lock of somebody.
func own(id string) Lock { return Lock{ID: id, Note: "of " + id, Term: 4 * time.Minute} }

// lockFile is the lock as it stands on the host, in words.
func lockFile(t *testing.T, s *server) (name string, words []string) {
	t.Helper()
	name = filepath.Join(s.state, "lock")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, strings.Fields(string(text))
}

// ago moves the last heartbeat of the lock on the host back.
func ago(t *testing.T, s *server, seconds int) {
	t.Helper()
	name, w := lockFile(t, s)
	var at int
	if _, err := fmt.Sscan(w[3], &at); err != nil {
		t.Fatal(err)
	}
	// The machine of the test may be up for less than that; then the heartbeat was before its boot.
	text := fmt.Sprintf("%s %s %s %d\n%s\n", w[0], w[1], w[2], at-seconds, strings.Join(w[4:], " "))
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestALockIsTakenRenewedAndDropped(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	if l, err := h.ReadLock(t.Context()); err != nil || l.ID != "" || !l.Expired() {
		t.Fatalf("before: %+v, %v", l, err)
	}
	if _, err := h.TakeLock(t.Context(), own("a"), ""); err != nil {
		t.Fatal(err)
	}
	l, err := h.ReadLock(t.Context())
	if err != nil || l.Age > time.Minute || l.Expired() {
		t.Fatalf("taken: %+v, %v", l, err)
	}
	l.Age = 0
	if d := cmp.Diff(own("a"), l); d != "" {
		t.Errorf("the lock (-want +got):\n%s", d)
	}
	if l, err := h.RenewLock(t.Context(), "a"); err != nil || l.ID != "a" {
		t.Errorf("renewed: %+v, %v", l, err)
	}
	if err := h.DropLock(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	if l, _ := h.ReadLock(t.Context()); l.ID != "a" {
		t.Errorf("another's drop left %+v", l)
	}
	if err := h.DropLock(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if l, _ := h.ReadLock(t.Context()); l.ID != "" {
		t.Errorf("the own drop left %+v", l)
	}
	if _, err := h.RenewLock(t.Context(), "a"); !errors.Is(err, ErrLockLost) {
		t.Errorf("renewed a lock that somebody removed: %v", err)
	}
}

func TestALockOfAnother(t *testing.T) {
	tests := []struct {
		name  string
		since int // seconds since its last heartbeat
		me    string
		over  string
		taken bool
	}{
		{"fresh", 0, "b", "", false},
		{"almost expired", 200, "b", "", false},
		{"expired", 241, "b", "", true},
		{"its holder is gone", 0, "b", "a", true},
		{"another's holder is gone", 0, "b", "c", false},
		{"our own, of an earlier connection", 0, "a", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, nil)
			h := s.host(t, nil)
			if _, err := h.TakeLock(t.Context(), own("a"), ""); err != nil {
				t.Fatal(err)
			}
			ago(t, s, tt.since)
			found, err := h.TakeLock(t.Context(), own(tt.me), tt.over)
			if tt.taken != (err == nil) || !tt.taken && (!errors.Is(err, ErrLocked) || found.ID != "a" || found.Note != "of a") {
				t.Errorf("found %+v, %v", found, err)
			}
			want := "a"
			if tt.taken {
				want = tt.me
			}
			if l, _ := h.ReadLock(t.Context()); l.ID != want || tt.taken && l.Age > time.Minute {
				t.Errorf("the host says %+v, want %s's", l, want)
			}
		})
	}
}

// Who was cut off for so long that another took the lock learns it with the next heartbeat.
func TestALostLockIsNotRenewed(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	for _, id := range []string{"a", "b"} {
		if _, err := h.TakeLock(t.Context(), own(id), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := h.RenewLock(t.Context(), "a"); !errors.Is(err, ErrLockLost) || l.ID != "b" {
		t.Errorf("renewed: %+v, %v, want b's lock", l, err)
	}
}

// A host that reboots in the middle of a change is still its holder's for a term: he waits for it to come back.
func TestALockAfterAReboot(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	l := own("a")
	l.Term = 1000 * 24 * time.Hour // longer than this machine is up
	if _, err := h.TakeLock(t.Context(), l, ""); err != nil {
		t.Fatal(err)
	}
	name, w := lockFile(t, s)
	for term, free := range map[string]bool{w[1]: false, "0": true} {
		text := w[0] + " " + term + " another-boot 99999999\nof a\n"
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if l, err := h.ReadLock(t.Context()); err != nil || l.Expired() != free || l.Age <= 0 {
			t.Errorf("with a term of %s: %+v, %v, want expired to be %v, and the age that of the boot", term, l, err, free)
		}
	}
}

// What nobody understands is nobody's to take.
func TestALockThatSaysNothing(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	if err := os.MkdirAll(s.state, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "a\n", "a 240 boot soon\nnote\n", "a 240 boot 1"} {
		if err := os.WriteFile(filepath.Join(s.state, "lock"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := h.TakeLock(t.Context(), own("b"), ""); err == nil || !strings.Contains(err.Error(), "remove it if nobody changes this host") {
			t.Errorf("%q: error is %v", text, err)
		}
	}
}

func TestOneOfManyGetsTheLock(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { _, errs[i] = h.TakeLock(t.Context(), own(fmt.Sprint("run-", i)), "") })
	}
	wg.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
		} else if !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
	}
	if got != 1 {
		t.Errorf("%d have the lock", got)
	}
}

// Looking and taking are one: whoever comes between waits, and then finds what was put there.
func TestALockIsLookedAtAlone(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	if err := os.MkdirAll(s.state, 0o755); err != nil {
		t.Fatal(err)
	}
	guard, err := os.Create(filepath.Join(s.state, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	if err := syscall.Flock(int(guard.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() { _, err := h.TakeLock(t.Context(), own("b"), ""); taken <- err }()
	info, err := guard.Stat()
	if err != nil {
		t.Fatal(err)
	}
	waits := regexp.MustCompile(fmt.Sprintf(`-> FLOCK .*:%d `, info.Sys().(*syscall.Stat_t).Ino))
	waitFor(t, "a script that waits", func() bool {
		table, err := os.ReadFile("/proc/locks")
		return err != nil || waits.Match(table) || len(taken) > 0
	})
	text := "a 999999999 another-boot 1\nof a\n"
	if err := os.WriteFile(filepath.Join(s.state, "lock"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	guard.Close()
	if err := <-taken; !errors.Is(err, ErrLocked) {
		t.Errorf("error is %v, want that a has it", err)
	}
}

func TestLocksThatAreNone(t *testing.T) {
	h := New(Config{Name: "a", Address: "192.0.2.1"}) // nobody is asked
	for _, l := range []Lock{{Term: time.Minute}, {ID: "a b", Term: time.Minute}, {ID: "a"}, {ID: "a", Term: time.Minute, Note: "b\nc"}} {
		if _, err := h.TakeLock(t.Context(), l, ""); err == nil || !strings.HasPrefix(err.Error(), "lock ") {
			t.Errorf("%+v: error is %v", l, err)
		}
	}
	for _, text := range []string{"", "held 1", "held one 2 a", "held 1 2 a b"} {
		if _, _, err := parseLock(text); err == nil {
			t.Errorf("%q was understood", text)
		}
	}
}
