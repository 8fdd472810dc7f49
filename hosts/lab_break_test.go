//go:build lab

package hosts_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

func TestLabUploadWithoutSFTP(t *testing.T) {
	s := site(t)
	for name, port := range map[string]int{"no subsystem": closedPort, "one that prints": garbagePort} {
		t.Run(name, func(t *testing.T) {
			uploadArrives(t, s.Hosts["box"], open(t, s.box("ops", port)))
		})
	}
	t.Run("worker-1", func(t *testing.T) {
		uploadArrives(t, s.Hosts["worker-1"], open(t, s.node(t, "worker-1", s.Hosts["worker-1"].Address6)))
	})
}

// MaxSessions is 2 there: whoever comes third waits, and nobody fails.
func TestLabFewSessions(t *testing.T) {
	s := site(t)
	h := open(t, s.box("ops", closedPort))
	const many = 12
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			out, err := h.Script(within(t, 2*time.Minute), hosts.Script{Text: `sleep 0.3; echo "$1"`, Args: []string{strconv.Itoa(i)}, Sudo: i%2 == 0})
			if err != nil || string(out) != strconv.Itoa(i)+"\n" {
				t.Errorf("%d: %q, %v", i, out, err)
			}
		})
	}
	all.Wait()
}

func TestLabForwardingForbidden(t *testing.T) {
	s := site(t)
	nc, err := open(t, s.box("ops", closedPort)).DialContext(within(t, time.Minute), "tcp", "127.0.0.1:22")
	if err == nil {
		nc.Close()
	}
	if !errors.Is(err, hosts.ErrForwardingRefused) {
		t.Errorf("DialContext = %v, want %v", err, hosts.ErrForwardingRefused)
	}
}

func TestLabRelay(t *testing.T) {
	s := site(t)
	t.Run("box", func(t *testing.T) {
		for _, user := range []string{"ops", "fish", "csh", "noisy", "pty", "ptypass", "masked"} {
			t.Run(user, func(t *testing.T) {
				c := s.box(user, closedPort)
				if c.Relay = true; s.Passwords[user] != "" {
					c.SudoPasswordFile = secretFile(t, s.Passwords[user])
				}
				greets(t, open(t, c))
			})
		}
	})
	t.Run("API server", func(t *testing.T) {
		c := s.node(t, "cp-1", s.Hosts["cp-1"].Address)
		c.Relay = true
		h := open(t, c)
		transport := &http.Transport{DialContext: h.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // who it is does not matter here
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		for range 20 {
			response, err := client.Get("https://127.0.0.1:6443/readyz")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusOK || string(body) != "ok" {
				t.Errorf("/readyz = %s %q, %v", response.Status, body, err)
			}
		}
	})
	t.Run("without socat", func(t *testing.T) {
		s.Hosts["box"].on(t, "chmod 0 /usr/bin/socat")
		t.Cleanup(func() { s.Hosts["box"].on(t, "chmod 755 /usr/bin/socat") })
		c := s.box("csh", closedPort)
		c.Relay = true
		greets(t, open(t, c))
	})
	t.Run("nobody listens", func(t *testing.T) {
		c := s.box("ops", closedPort)
		c.Relay = true
		nc, err := open(t, c).DialContext(within(t, time.Minute), "tcp", "127.0.0.1:9")
		if err == nil {
			_, err = nc.Read(make([]byte, 1))
			nc.Close()
		}
		if err == nil || errors.Is(err, hosts.ErrForwardingRefused) {
			t.Errorf("a port where nobody listens gave %v", err)
		}
	})
}

// outcome is what RunUnit returned.
type outcome struct {
	rec   hosts.Record
	lines []string
	err   error
}

// startUnit runs a unit in the background, and returns when it runs on the host. The unit writes a line a second for
// as long as it lasts, and then exits with status 5.
func startUnit(t *testing.T, machine labHost, h *hosts.Host, seconds int) (name string, done <-chan outcome) {
	t.Helper()
	name = "lab-" + strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	ended := make(chan outcome, 1)
	ctx := within(t, 4*time.Minute)
	go func() {
		var o outcome
		u := hosts.Unit{Name: name, Argv: []string{"sh", "-c", `i=0; while [ $i -lt "$1" ]; do i=$((i + 1)); echo "line $i"; sleep 1; done; exit 5`, "sh", strconv.Itoa(seconds)}}
		o.rec, _, o.err = h.RunUnit(ctx, u, func(line string) { o.lines = append(o.lines, line) })
		ended <- o
	}()
	eventually(t, "the unit runs", time.Minute, func() (string, bool) {
		if len(ended) > 0 {
			t.Fatalf("RunUnit ended at once: %v", (<-ended).err)
		}
		out, _ := machine.try(`systemctl is-active "$1"`, "kuberung-"+name+".service")
		return out, out == "active\n"
	})
	t.Cleanup(func() { // the context of the test is over by then
		if err := h.ForgetUnit(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	})
	return name, ended
}

// whole checks that a unit of so many seconds was followed to its real end, every line once and in order.
func (o outcome) whole(t *testing.T, seconds int) {
	t.Helper()
	if exit, ok := errors.AsType[*hosts.ExitError](o.err); !ok || exit.Code != 5 {
		t.Errorf("RunUnit = %+v, %v, want exit status 5", o.rec, o.err)
	}
	var want []string
	for i := range seconds {
		want = append(want, fmt.Sprintf("line %d", i+1))
	}
	if got := strings.Join(o.lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("it said %q, want each of %d lines once", o.lines, seconds)
	}
}

// cut ends all SSH connections of a user on a machine as its administrator would, and checks that there were some.
func cut(t *testing.T, machine labHost, user string) {
	t.Helper()
	if _, err := machine.try(`pkill -KILL -f "^sshd: $1"`, user); err != nil {
		t.Errorf("no connection was there to cut: %v", err)
	}
}

func TestLabCutWhileAUnitRuns(t *testing.T) {
	s := site(t)
	const seconds = 12
	t.Run("host", func(t *testing.T) {
		h := open(t, s.box("ops", mainPort))
		_, done := startUnit(t, s.Hosts["box"], h, seconds)
		for range 2 {
			cut(t, s.Hosts["box"], "ops")
			connects(t, h, "ops") // over a new connection, made by itself
		}
		(<-done).whole(t, seconds)
	})
	t.Run("both hops", func(t *testing.T) {
		h := open(t, s.node(t, "cp-1", s.Hosts["cp-1"].Address))
		_, done := startUnit(t, s.Hosts["cp-1"], h, seconds)
		for _, hop := range []string{"bastion-1", "bastion-2"} {
			cut(t, s.Hosts[hop], "jump")
			eventually(t, "the way is there again", time.Minute, func() (string, bool) {
				_, err := h.Run(within(t, time.Minute), hosts.Cmd{Argv: []string{"true"}})
				return fmt.Sprint(err), err == nil
			})
		}
		(<-done).whole(t, seconds)
	})
}

// A cut in the middle of a command is told as such: it may have run.
func TestLabCutWhileACommandRuns(t *testing.T) {
	s := site(t)
	h := open(t, s.box("ops", mainPort))
	mark := sleeper()
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), hosts.Cmd{Argv: []string{"sleep", mark}})
		done <- err
	}()
	eventually(t, "the command runs", time.Minute, func() (string, bool) {
		out, err := s.Hosts["box"].try(`pgrep -f "$1"`, "^sleep "+mark)
		return out, err == nil
	})
	t.Cleanup(func() { _, _ = s.Hosts["box"].try(`pkill -f "$1"`, "^sleep "+mark) })
	cut(t, s.Hosts["box"], "ops")
	if err := <-done; !errors.Is(err, hosts.ErrConnLost) {
		t.Errorf("Run = %v, want %v", err, hosts.ErrConnLost)
	}
	connects(t, h, "ops")
}

func TestLabReboot(t *testing.T) {
	s := site(t)
	h := open(t, s.box("ops", mainPort))
	box := s.Hosts["box"]
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	before := box.on(t, bootID)
	name, done := startUnit(t, box, h, 600)
	_, _ = box.try("systemctl reboot") // cut before it can tell how it went; what follows tells
	eventually(t, "the host is up again", 2*time.Minute, func() (string, bool) {
		after, err := box.try(bootID)
		return after, err == nil && after != before
	})
	o := <-done
	if !errors.Is(o.err, hosts.ErrUnitInterrupted) || o.rec.State != hosts.Interrupted || len(o.lines) == 0 {
		t.Errorf("RunUnit = %+v with %d lines, %v, want it interrupted", o.rec, len(o.lines), o.err)
	}
	connects(t, h, "ops")
	rec, adopted, err := h.RunUnit(within(t, time.Minute), hosts.Unit{Name: name, Argv: []string{"sh", "-c", "exit 7"}}, nil)
	if exit, ok := errors.AsType[*hosts.ExitError](err); !ok || exit.Code != 7 || adopted {
		t.Errorf("afterwards RunUnit = %+v, %v, %v, want exit status 7 of a new run", rec, adopted, err)
	}
}
