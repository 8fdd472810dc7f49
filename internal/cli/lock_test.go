package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/internal/ui"
	"github.com/kuberung/kuberung/steps"
)

func prod(t *testing.T, port int) *config.Cluster {
	t.Helper()
	c, err := config.Parse("prod.yaml", []byte(clusterFile(port)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ofBert is a lock that bert's run has.
func ofBert() steps.Held {
	return steps.Held{
		Holder: steps.Holder{Run: "r", Name: "bert@laptop", PID: 4711, Does: "upgrade to v1.36.3", Since: time.Date(2026, 12, 1, 3, 12, 45, 0, time.Local)},
		Age:    12 * time.Second, Term: 5 * time.Minute,
	}
}

// The second run says who is at work, since when, where, and what to do. Its code says that nothing was changed.
func TestASecondRun(t *testing.T) {
	held := ofBert()
	code, text := codeOf(refused(prod(t, 1), &steps.HeldError{Held: held}))
	want := `bert@laptop is at work on this cluster: upgrade to v1.36.3, since 2026-12-01 03:12:45, pid 4711, last heartbeat 12s ago; nothing was changed
Wait for its end, or end it there with Ctrl-C. If that run is dead, its lock expires by itself, 5m0s after its last
heartbeat. To look: kuberung status -f prod.yaml. To remove the lock: kuberung unlock -f prod.yaml`
	if code != codeLocked || text != want {
		t.Errorf("got %d\n%s\nwant 5\n%s", code, text, want)
	}
	docs, err := os.ReadFile("../../docs/lock.md")
	if _, advice, _ := strings.Cut(want, "\n"); err != nil || !strings.Contains(string(docs), advice) {
		t.Errorf("docs/lock.md says something else: %v", err)
	}
	other := errors.New("connection refused")
	if err := refused(prod(t, 1), other); err != other {
		t.Errorf("%v became %v", other, err)
	}
	if err := refused(prod(t, 1), nil); err != nil {
		t.Error(err)
	}
}

// A lock that was lost is why a run ended before its end, and is told first.
func TestALockLostInTheMiddle(t *testing.T) {
	held := ofBert()
	lost := fmt.Errorf("the lock of the cluster was lost, so nothing new was started: %w", &steps.HeldError{Held: held})
	no, yes := func() error { return nil }, func() error { return lost }
	stopped := &exitError{codeStopped, errors.New("stopped, work remains")}
	var out strings.Builder
	p := Process{Err: &out}
	if err := lostOr(p, no, stopped); err != error(stopped) {
		t.Errorf("without a loss: %v", err)
	}
	code, text := codeOf(lostOr(p, yes, stopped))
	if code != codeFailed || text != lost.Error()+"\nstopped, work remains" {
		t.Errorf("got %d, %s", code, text)
	}
	if err := lostOr(p, yes, nil); err != nil || out.String() != lost.Error()+"; all that was planned was done\n" {
		t.Errorf("after the last step: %v, said %s", err, out.String())
	}
}

// kept is a lock of which the test decides.
type kept struct {
	take, err, release error
	lost               chan struct{}
	released           int
}

func (k *kept) Take(context.Context) error    { return k.take }
func (k *kept) Lost() <-chan struct{}         { return k.lost }
func (k *kept) Err() error                    { return k.err }
func (k *kept) Release(context.Context) error { k.released++; return k.release }

// However a run ends, the lock is given back once; what went wrong with that is told and changes no code.
func TestTheLockIsGivenBack(t *testing.T) {
	failed := &exitError{codeFailed, errors.New("w-1: drain: refused")}
	held := ofBert()
	stopped := make(chan struct{})
	close(stopped)
	tests := []struct {
		name string
		kept kept
		stop chan struct{}
		work error
		code int
		ran  bool
		said string
	}{
		{"done", kept{}, nil, nil, codeDone, true, ""},
		{"failed", kept{}, nil, failed, codeFailed, true, ""},
		{"another's", kept{take: &steps.HeldError{Held: held}}, nil, nil, codeLocked, false, ""},
		{"another's, found later", kept{take: errors.New("no API")}, nil, &steps.HeldError{Held: held}, codeLocked, true, ""},
		{"stopped before", kept{}, stopped, nil, codeInterrupted, false, ""},
		{"not to be given back", kept{release: errors.New("it stays")}, nil, nil, codeDone, true, "it stays\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			ran, k := false, tt.kept
			err := holding(t.Context(), Process{Out: &out, Err: &out, Stop: tt.stop}, prod(t, 1), stopping{&k, tt.stop}, func(Process) error { ran = true; return tt.work })
			if code, text := codeOf(err); code != tt.code || ran != tt.ran || k.released != 1 || out.String() != tt.said {
				t.Errorf("got %d, %s, ran %v, released %d times, said %s", code, text, ran, k.released, out.String())
			}
		})
	}
}

// stopping is taken only after a stop was noticed, if there is one.
type stopping struct {
	*kept
	stop chan struct{}
}

func (s stopping) Take(ctx context.Context) error {
	if s.stop != nil {
		<-ctx.Done()
	}
	return s.kept.Take(ctx)
}

// A lock that is lost stops the work as the operator does, and is the reason that is told.
func TestALostLockStopsTheWork(t *testing.T) {
	k := &kept{lost: make(chan struct{}), err: errors.New("bert took it")}
	err := holding(t.Context(), Process{Out: io.Discard, Err: io.Discard, Stop: make(chan struct{})}, prod(t, 1), k, func(p Process) error {
		close(k.lost)
		<-p.Stop
		return &exitError{codeStopped, engine.ErrStopped}
	})
	if code, text := codeOf(err); code != codeFailed || text != "bert took it\nstopped, work remains" {
		t.Errorf("got %d, %s", code, text)
	}
}

// Without an answer of the API there is no lock, and no lane starts.
func TestWithoutTheAPINothingStarts(t *testing.T) {
	c := prod(t, closedPort(t))
	s := steps.Open(c, nil)
	defer s.Close()
	var out strings.Builder
	ran := false
	err := exclusively(t.Context(), Process{Out: &out, Err: &out}, c, s, "upgrade", func(p Process) error {
		ran = true
		return engine.Run(t.Context(), stopPlan(), engine.Options[steps.Facts]{
			Enter: s.Enter, Emit: func(engine.Event) {},
			Observe: func(context.Context, string) (steps.Facts, error) {
				t.Error("facts were read")
				return steps.Facts{}, nil
			},
		})
	})
	if !ran || err == nil || err.Error() != "cluster: the lock of the cluster was not taken" || out.String() != "" {
		t.Errorf("ran %v, error %v, said %s", ran, err, out.String())
	}
}

// Either end reaches the work: the operator's, and that of a lock that is lost.
func TestEither(t *testing.T) {
	for i := range 3 {
		a, b := make(chan struct{}), make(chan struct{})
		first, done := either(a, b)
		if i == 0 {
			close(a)
		} else {
			close(b)
		}
		<-first
		done()
	}
	first, done := either(nil, nil)
	done()
	select {
	case <-first:
		t.Error("it ended by itself")
	default:
	}
}

func TestLinesOfSeveralGoroutines(t *testing.T) {
	var out strings.Builder
	w := ui.Plain(&out)
	say := told(w)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { say("the lock is %d s old", 5) })
		wg.Go(func() { fmt.Fprintln(w, "a line") })
	}
	wg.Wait()
	if n := strings.Count(out.String(), "the lock is 5 s old\n"); n != 1 || strings.Count(out.String(), "\n") != 21 {
		t.Errorf("told %d times:\n%s", n, out.String())
	}
}

func holderOf(pid int) steps.Holder { return steps.Holder{PID: pid, Process: processID(pid)} }

// Only a process of this machine and of this boot that has ended for certain is gone.
func TestGone(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		if gone(holderOf(os.Getpid())) {
			t.Error("on a system that does not tell, somebody is gone")
		}
		return
	}
	me := holderOf(os.Getpid())
	if me.Process == "" || gone(me) {
		t.Fatalf("we are gone: %+v", me)
	}
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	living := holderOf(child.Process.Pid)
	if gone(living) {
		t.Error("a process that runs is gone")
	}
	changed := living
	changed.Process = changed.Process[:strings.LastIndex(changed.Process, " ")+1] + "12345"
	if !gone(changed) {
		t.Error("a number that is another process's by now is not known by its start")
	}
	for name, h := range map[string]steps.Holder{
		"of another boot":  {PID: 1 << 30, Process: "another " + living.Process},
		"without a name":   {PID: 1 << 30},
		"of a group":       {PID: -1 << 30, Process: living.Process},
		"without a number": {Process: living.Process},
	} {
		if gone(h) {
			t.Errorf("a process %s is gone", name)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for !gone(living) { // a zombie first: nobody has asked for its end
		runtime.Gosched()
	}
	_ = child.Wait()
	if !gone(living) {
		t.Error("a process that ended is not gone")
	}
}

func TestTheNameOfARun(t *testing.T) {
	a, b := newHolder("upgrade to v1.36.3"), newHolder("upgrade to v1.36.3")
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(a.Name, "@"+machine) || strings.HasPrefix(a.Name, "@") || a.PID != os.Getpid() || a.Run == b.Run || len(a.Run) != 10 {
		t.Errorf("holders are %+v and %+v", a, b)
	}
}
