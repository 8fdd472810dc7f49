package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lines collects what a unit says, and calls on for each line.
type lines struct {
	mu  sync.Mutex
	all []string
	on  func(string)
}

func (l *lines) log(line string) {
	l.mu.Lock()
	l.all = append(l.all, line)
	l.mu.Unlock()
	if l.on != nil {
		l.on(line)
	}
}

// starts is how often the stand-in was asked to start something.
func (s *server) starts(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.fake, "starts"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// killUnit ends a unit's wrapper and command as a power cut would.
func (s *server) killUnit(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.fake, serviceName(name)))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the unit", func() bool { return ended(strconv.Itoa(pid)) })
}

// held is a unit that says "working", waits for the file go, says "done" and ends with a status.
func (s *server) held(name string, code int) (u Unit, release func()) {
	goFile := filepath.Join(s.dir, name+".go")
	u = Unit{Name: name, Limit: time.Minute, Argv: []string{"sh", "-c", `echo working; while [ -d "${0%/*}" ] && [ ! -e "$0" ]; do sleep 0.02; done; echo done; exit $1`, goFile, strconv.Itoa(code)}}
	return u, func() { _ = os.WriteFile(goFile, nil, 0o600) }
}

func TestRunUnit(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	var l lines
	u := Unit{Name: "say", Argv: []string{"sh", "-c", `echo "$0"; echo err >&2; cat; pwd; umask; echo "$HOME"; printf 'no newline'`, "it's"}}
	before := time.Now().Add(-2 * time.Second)
	rec, adopted, err := h.RunUnit(t.Context(), u, l.log)
	if err != nil || adopted {
		t.Fatalf("adopted=%v, %v", adopted, err)
	}
	want := []string{"it's", "err", "/", "0022", "/root", "no newline"}
	if diff := cmp.Diff(want, l.all); diff != "" {
		t.Errorf("lines (-want +got)\n%s", diff)
	}
	if rec.State != Exited || rec.Code != 0 || !rec.Claimed || rec.Started.Before(before) || rec.Ended.Before(rec.Started) {
		t.Errorf("record %+v", rec)
	}
	again, err := h.UnitRecord(t.Context(), "say")
	if diff := cmp.Diff(rec, again); err != nil || diff != "" {
		t.Errorf("read again: %v (-want +got)\n%s", err, diff)
	}
	dir := filepath.Join(s.state, "units")
	for path, mode := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, dir + "/say": 0o700 | os.ModeDir, dir + "/say/output": 0o600, dir + "/say/status": 0o600, dir + "/say/wrapper": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, want mode %v", path, err, mode)
		}
	}
	asked, err := os.ReadFile(filepath.Join(s.fake, "starts"))
	if err != nil || strings.Contains(string(asked), "it's") {
		t.Errorf("the unit's properties show its command: %s, %v", asked, err)
	}
}

func TestRunUnitFails(t *testing.T) {
	h := startServer(t, nil).host(t, nil)
	rec, _, err := h.RunUnit(t.Context(), Unit{Name: "bad", Argv: []string{"sh", "-c", "echo why; exit 7"}}, nil)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 7 || exit.Stderr != "why\n" || rec.Code != 7 || !rec.Claimed {
		t.Errorf("got %+v, %v", rec, err)
	}
	rec, _, err = h.RunUnit(t.Context(), Unit{Name: "absent", Argv: []string{"no-such-command"}}, nil)
	if !errors.As(err, &exit) || rec.Code != 127 {
		t.Errorf("missing command: got %+v, %v", rec, err)
	}
	for _, u := range []Unit{{Name: "../x", Argv: []string{"true"}}, {Name: "", Argv: []string{"true"}}, {Name: "x"}, {Name: "x", Argv: []string{"\x00"}}} {
		if _, _, err := h.RunUnit(t.Context(), u, nil); err == nil {
			t.Errorf("unit %+v accepted", u)
		}
	}
}

// A claimed result is history: the same work starts again, and one earlier record is kept.
func TestClaimedUnitStartsAgain(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	for i := range 3 {
		var l lines
		_, adopted, err := h.RunUnit(t.Context(), Unit{Name: "u", Argv: []string{"echo", fmt.Sprint(i)}}, l.log)
		if err != nil || adopted || len(l.all) != 1 || l.all[0] != fmt.Sprint(i) {
			t.Fatalf("run %d: %v, adopted=%v, %v", i, l.all, adopted, err)
		}
	}
	old, err := os.ReadFile(filepath.Join(s.state, "units/.previous/u/output"))
	if err != nil || string(old) != "1\n" {
		t.Errorf("earlier record: %q, %v", old, err)
	}
}

func TestRunUnitSurvivesLostConnection(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u, release := s.held("long", 0)
	var l lines
	l.on = func(line string) {
		if line == "working" {
			s.cut()
			release()
		}
	}
	rec, adopted, err := h.RunUnit(t.Context(), u, l.log)
	if err != nil || adopted || rec.Code != 0 {
		t.Fatalf("got %+v, adopted=%v, %v", rec, adopted, err)
	}
	if diff := cmp.Diff([]string{"working", "done"}, l.all); diff != "" {
		t.Errorf("lines (-want +got)\n%s", diff)
	}
	if s.dials.Load() < 2 || s.starts(t) != 1 {
		t.Errorf("%d connections, %d starts", s.dials.Load(), s.starts(t))
	}
}

// The operator's context ends; the unit goes on, and the next run, by another operator, follows it.
func TestAdoptRunning(t *testing.T) {
	s := startServer(t, nil)
	u, release := s.held("long", 5)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := s.host(t, nil).RunUnit(ctx, u, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "it goes on there as kuberung-long.service") {
		t.Fatalf("got %v", err)
	}
	h := s.host(t, nil)
	rec, err := h.UnitRecord(t.Context(), "long")
	if err != nil || rec.State != Running || rec.Tail != "working\n" || rec.Started.IsZero() {
		t.Errorf("meanwhile: %+v, %v", rec, err)
	}
	if err := h.ForgetUnit(t.Context(), "long"); !errors.Is(err, ErrUnitRunning) {
		t.Errorf("forget: got %v", err)
	}
	var l lines
	l.on = func(string) { release() }
	rec, adopted, err := h.RunUnit(t.Context(), u, l.log)
	var exit *ExitError
	if !errors.As(err, &exit) || rec.Code != 5 || !adopted {
		t.Errorf("got %+v, adopted=%v, %v", rec, adopted, err)
	}
	if diff := cmp.Diff([]string{"working", "done"}, l.all); diff != "" {
		t.Errorf("lines (-want +got)\n%s", diff)
	}
	if got := s.starts(t); got != 1 {
		t.Errorf("started %d times", got)
	}
}

// A result nobody has read is handed out once, then the work starts again.
func TestAdoptFinished(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u, release := s.held("long", 3)
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := h.RunUnit(ctx, u, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	release()
	waitFor(t, "the result", func() bool {
		rec, err := h.UnitRecord(t.Context(), "long")
		return err == nil && rec.State == Exited
	})
	for _, want := range []bool{true, false} {
		rec, adopted, err := h.RunUnit(t.Context(), u, nil)
		if exitCode(err) != 3 || adopted != want || !rec.Claimed || rec.Tail != "working\ndone\n" {
			t.Errorf("got %+v, adopted=%v, %v, want adopted=%v", rec, adopted, err, want)
		}
	}
	if got := s.starts(t); got != 2 {
		t.Errorf("started %d times, want 2", got)
	}
}

func TestInterruptedWhileFollowing(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u, release := s.held("long", 0)
	rec, _, err := h.RunUnit(t.Context(), u, func(string) { s.killUnit(t, "long") })
	if !errors.Is(err, ErrUnitInterrupted) || rec.State != Interrupted || !strings.Contains(err.Error(), "last output: working") {
		t.Fatalf("got %+v, %v", rec, err)
	}
	if rec.Rebooted || strings.Contains(err.Error(), "rebooted") {
		t.Errorf("nothing has rebooted: %+v, %v", rec, err)
	}
	release()
	rec, adopted, err := h.RunUnit(t.Context(), u, nil)
	if err != nil || adopted || rec.State != Exited {
		t.Errorf("afterwards: %+v, adopted=%v, %v", rec, adopted, err)
	}
}

// A person who reads that a unit was cut off has to know whether somebody ended it or the host went down under it.
func TestInterruptedByReboot(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u, release := s.held("long", 0)
	defer release()
	rec, _, err := h.RunUnit(t.Context(), u, func(string) {
		if err := os.WriteFile(filepath.Join(s.state, "units", "long", "boot"), []byte("the-boot-before\n"), 0o600); err != nil {
			t.Error(err)
		}
		s.killUnit(t, "long")
	})
	if !errors.Is(err, ErrUnitInterrupted) || !rec.Rebooted || !strings.Contains(err.Error(), "the host has rebooted since the unit was started; last output: working") {
		t.Fatalf("got %+v, %v", rec, err)
	}
	if rec, err := h.UnitRecord(t.Context(), "long"); err != nil || rec.State != Interrupted || !rec.Rebooted {
		t.Errorf("asked later: %+v, %v", rec, err)
	}
}

// Two operators at once: one starts, the other adopts, both get the result.
func TestStartedOnce(t *testing.T) {
	s := startServer(t, nil)
	u, release := s.held("race", 0)
	var seen, adoptions sync.WaitGroup
	var mu sync.Mutex
	found := 0
	seen.Add(4)
	for range 4 {
		h := s.host(t, nil)
		adoptions.Go(func() {
			first := sync.OnceFunc(seen.Done)
			rec, adopted, err := h.RunUnit(t.Context(), u, func(string) { first() })
			if err != nil || rec.State != Exited {
				t.Errorf("got %+v, %v", rec, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if adopted {
				found++
			}
		})
	}
	seen.Wait()
	release()
	adoptions.Wait()
	if s.starts(t) != 1 || found != 3 {
		t.Errorf("%d starts, %d adoptions, want 1 and 3", s.starts(t), found)
	}
}

// systemd-run itself says that the unit exists, though systemctl had not shown it.
func TestAlreadyExists(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u, release := s.held("u", 4)
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := h.RunUnit(ctx, u, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.flag(t, "hidden", true)
	s.flag(t, "taken", true)
	var l lines
	l.on = func(string) { release() }
	rec, adopted, err := h.RunUnit(t.Context(), u, l.log)
	if !adopted || exitCode(err) != 4 || rec.Tail != "working\ndone\n" {
		t.Errorf("got %+v, adopted=%v, %v", rec, adopted, err)
	}
}

// Wherever a line breaks, a unit is started once and its result is heard.
func TestRunUnitCutAtAnyByte(t *testing.T) {
	s := sudoServer(t, nil)
	var left atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return heardUpTo{nc, &left}, err
	}
	for at := int64(1); ; at += 97 {
		h := s.sudoHost(t, nil, func(c *Config) { c.Dial = dial })
		if err := h.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		left.Store(at)
		ran := filepath.Join(s.dir, fmt.Sprintf("ran-%d", at))
		rec, _, err := h.RunUnit(t.Context(), Unit{Name: fmt.Sprintf("u%d", at), Argv: []string{"sh", "-c", `echo x >>"$1"; echo one; exit 0`, "sh", ran}}, nil)
		whole := left.Load() > 0
		h.Close()
		if err != nil || rec.State != Exited || rec.Tail != "one\n" {
			t.Errorf("cut after %d bytes: %+v, %v", at, rec, err)
		}
		if n, _ := os.ReadFile(ran); bytes.Count(n, []byte("x")) != 1 {
			t.Errorf("cut after %d bytes: ran %d times", at, bytes.Count(n, []byte("x")))
		}
		if whole {
			return
		}
	}
}
