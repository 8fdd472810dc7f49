package hosts

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestUnitLimit(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u, release := s.held("slow", 0)
	u.Limit = 3 * time.Second // long enough for a busy machine to start it
	rec, _, err := h.RunUnit(t.Context(), u, nil)
	if !errors.Is(err, ErrUnitLimit) || rec.State != Running {
		t.Fatalf("got %+v, %v", rec, err)
	}
	for _, want := range []string{"limit of 3s", "it goes on there as kuberung-slow.service", "last output: working"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	release()
	u.Limit = time.Minute
	if rec, adopted, err := h.RunUnit(t.Context(), u, nil); err != nil || !adopted || rec.Code != 0 {
		t.Errorf("afterwards: %+v, adopted=%v, %v", rec, adopted, err)
	}
}

func TestCannotTell(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	s.flag(t, "mute", true)
	if _, _, err := h.RunUnit(t.Context(), Unit{Name: "u", Argv: []string{"true"}}, nil); err == nil {
		t.Error("started a unit although systemd did not answer")
	}
	if _, err := h.UnitRecord(t.Context(), "u"); err == nil {
		t.Error("a record although systemd did not answer")
	}
	if s.starts(t) != 0 {
		t.Error("started")
	}
}

func TestStartRefused(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u := Unit{Name: "u", Argv: []string{"echo", "hello"}}
	if _, _, err := h.RunUnit(t.Context(), u, nil); err != nil {
		t.Fatal(err)
	}
	s.flag(t, "bus-down", true)
	_, _, err := h.RunUnit(t.Context(), u, nil)
	if err == nil || !strings.Contains(err.Error(), "Failed to connect to bus") {
		t.Errorf("got %v", err)
	}
	rec, err := h.UnitRecord(t.Context(), "u")
	if err != nil || rec.State != Exited || !rec.Claimed || rec.Tail != "hello\n" {
		t.Errorf("the record before was not put back: %+v, %v", rec, err)
	}
}

func TestNoSystemdRun(t *testing.T) {
	s := startServer(t, nil)
	bin := t.TempDir()
	s.shell = []string{"/bin/sh", "-c", `PATH=` + bin + `; eval "$0"`}
	for _, tool := range []string{"printf", "id", "sudo", "sh", "cat", "env"} {
		real := "/usr/bin/" + tool
		if tool == "sudo" {
			real, _ = filepath.Abs("testdata/bin/sudo")
		}
		_ = os.Symlink(real, filepath.Join(bin, tool))
	}
	h := s.host(t, nil)
	h.tune.searchPath = bin
	if _, _, err := h.RunUnit(t.Context(), Unit{Name: "u", Argv: []string{"true"}}, nil); !errors.Is(err, ErrNoSystemdRun) {
		t.Errorf("got %v", err)
	}
}

func TestNotBootedWithSystemd(t *testing.T) {
	s := startServer(t, nil)
	s.flag(t, "no-systemd", true)
	_, _, err := s.host(t, nil).RunUnit(t.Context(), Unit{Name: "u", Argv: []string{"true"}}, nil)
	wantError(t, err, ErrNoSystemdRun, "not been booted with systemd")
}

func TestForgetUnit(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	for range 2 {
		if _, _, err := h.RunUnit(t.Context(), Unit{Name: "u", Argv: []string{"true"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.ForgetUnit(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	checkOnly(t, filepath.Join(s.state, "units"), ".lock", ".previous")
	checkOnly(t, filepath.Join(s.state, "units", ".previous"))
	if rec, err := h.UnitRecord(t.Context(), "u"); err != nil || rec.State != None {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// A unit with much output is adopted from a whole line near its end; all of a fresh one's is handed out.
func TestLongOutput(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	const count = 200_000
	u := Unit{Name: "many", Argv: []string{"seq", strconv.Itoa(count)}}
	check := func(l *lines, from int) {
		t.Helper()
		for i, line := range l.all {
			if line != strconv.Itoa(from+i) {
				t.Fatalf("line %d is %q, want %d", i, line, from+i)
			}
		}
		if got := from + len(l.all) - 1; got != count {
			t.Errorf("last line %d, want %d", got, count)
		}
	}
	var l lines
	if _, _, err := h.RunUnit(t.Context(), u, l.log); err != nil {
		t.Fatal(err)
	}
	check(&l, 1)
	if err := os.Remove(filepath.Join(s.state, "units/many/claimed")); err != nil {
		t.Fatal(err)
	}
	var tail lines
	if _, adopted, err := h.RunUnit(t.Context(), u, tail.log); err != nil || !adopted {
		t.Fatal(adopted, err)
	}
	if len(tail.all) == 0 || len(tail.all) > count/2 {
		t.Fatalf("%d lines of a tail", len(tail.all))
	}
	from, _ := strconv.Atoi(tail.all[0])
	check(&tail, from)
}

// A host on its way down or up may refuse an answer for a while; the unit is followed all the same.
func TestFollowThroughSilence(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	u, release := s.held("u", 0)
	rec, _, err := h.RunUnit(t.Context(), u, func(line string) {
		if line == "working" {
			s.flag(t, "mute", true)
			time.AfterFunc(100*time.Millisecond, func() { release(); _ = os.Remove(filepath.Join(s.fake, "mute")) })
		}
	})
	if err != nil || rec.Tail != "working\ndone\n" {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// When the host is gone at the end of the limit, nobody claims to know that the unit runs.
func TestLimitWhileAway(t *testing.T) {
	s := startServer(t, nil)
	away := make(chan struct{})
	h := s.host(t, func(c *Config) {
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-away:
				return nil, errors.New("no route to host")
			default:
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}
		}
	})
	u, release := s.held("u", 0)
	defer release()
	u.Limit = 2 * time.Second
	_, _, err := h.RunUnit(t.Context(), u, func(string) { close(away); s.cut() })
	wantError(t, err, ErrUnitLimit, "no route to host", "when last seen it ran there as kuberung-u.service")
	wantError(t, err, ErrUnreachable)
}

// An sshd that lets us in and hangs up has started nothing, so there is nothing to wait for.
func TestUnitThatWasNeverSent(t *testing.T) {
	s := startServer(t, hangsUp)
	_, _, err := s.host(t, nil).RunUnit(t.Context(), Unit{Name: "u", Argv: []string{"true"}, Limit: 5 * time.Second}, nil)
	wantError(t, err, ErrConnLost)
	if errors.Is(err, ErrUnitLimit) {
		t.Errorf("waited for it: %v", err)
	}
}
