package steps

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/engine"
)

// slowPlan is three lanes of the whole cluster, each a window with two steps of a minute and a closing one.
func slowPlan(ran *[]string, begun func(string)) engine.Plan[Facts] {
	var p plan
	for i := range 3 {
		one := func(name string) step {
			return step{Name: name, Does: "wait", Run: func(ctx context.Context, _ Facts, _ engine.Logf) error {
				what := fmt.Sprintf("%s-%d", name, i+1)
				begun(what)
				select {
				case <-time.After(time.Minute):
					*ran = append(*ran, what)
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}}
		}
		p = append(p, stage{Name: fmt.Sprint("stage-", i), Width: 1, Lanes: []lane{{
			Target: wholeCluster, Work: []step{one("move"), one("prove")}, Close: []step{one("close")},
		}}})
	}
	return p
}

func (c *contender) run(ctx context.Context, p engine.Plan[Facts]) error {
	return engine.Run(ctx, p, engine.Options[Facts]{
		Enter: c.s.Enter, Stop: c.Lost(), Emit: func(engine.Event) {},
		Observe: func(context.Context, string) (Facts, error) { return Facts{}, nil },
	})
}

// A run whose lock another takes comes to the end of what it is in the middle of, and starts nothing new.
func TestARunThatLosesItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseServer{}
		a := l.contender(t, "anna", 1)
		if err := a.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		var ran []string
		err := a.run(t.Context(), slowPlan(&ran, func(what string) {
			if what == "prove-2" {
				l.set(holder("bert", 2), 0)
			}
		}))
		if !errors.Is(err, engine.ErrStopped) || a.Err() == nil || !strings.Contains(a.Err().Error(), "bert@laptop is at work") {
			t.Errorf("error %v, lock %v", err, a.Err())
		}
		want := []string{"move-1", "prove-1", "close-1", "move-2", "prove-2", "close-2"}
		if d := cmp.Diff(want, ran); d != "" {
			t.Errorf("what ran (-want +got):\n%s", d)
		}
		a.end(t)
	})
}

// API servers that restart in the middle of a run, for longer than a heartbeat may be late, are no loss.
func TestARunWhileTheAPIIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseServer{}
		a := l.contender(t, "anna", 1)
		if err := a.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		var ran []string
		err := a.run(t.Context(), slowPlan(&ran, func(what string) {
			switch what {
			case "move-1":
				l.fail(errors.New("connection refused"))
				time.AfterFunc(4*time.Minute, func() { l.fail(nil) })
			case "move-3":
				if age := time.Since(l.beat()); age > lockBeat {
					t.Errorf("the last heartbeat is %s old", age)
				}
			}
		}))
		if err != nil || a.Err() != nil || len(ran) != 9 {
			t.Errorf("error %v, lock %v, ran %q", err, a.Err(), ran)
		}
		a.end(t)
		if l.holder() != "" {
			t.Errorf("the Lease is %s's", l.holder())
		}
	})
}

// A second Ctrl-C ends the run at once; the lock is given back all the same.
func TestARunThatIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseServer{}
		a := l.contender(t, "anna", 1)
		if err := a.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cut := errors.New("interrupted")
		var ran []string
		err := a.run(ctx, slowPlan(&ran, func(what string) {
			if what == "prove-1" {
				cancel(cut)
			}
		}))
		if !errors.Is(err, cut) || len(ran) != 1 {
			t.Errorf("error %v, ran %q", err, ran)
		}
		if err := a.Release(ctx); err != nil || l.holder() != "" {
			t.Errorf("release: %v, the Lease is %q's", err, l.holder())
		}
	})
}

// Heartbeats are written and judged by the API server's clock, whatever the machines say: one that is an hour slow is
// not taken for dead, and one that is an hour fast does not hold its lock for longer.
func TestClocksOfMachinesDoNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const off = time.Hour
		now := func() time.Time { return time.Now().Add(off) } // the API server's
		f := newFleet(t)
		o := f.failover(t, map[string]answer{"a": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", now().UTC().Format(http.TimeFormat))
			says(200, "{}")(w, r)
		}})
		l := &leaseServer{}
		a := l.contender(t, "anna", 1)
		a.s.transport = o
		if _, err := ask(t, o, http.MethodGet, ""); err != nil {
			t.Fatal(err)
		}
		if err := a.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := now().Sub(l.beat()); d.Abs() > time.Second {
			t.Errorf("the heartbeat is %s from the API server's time", d)
		}
		b := l.contender(t, "bert", 2)
		b.s.transport = o
		if err := b.Take(t.Context()); !errors.As(err, new(*HeldError)) {
			t.Errorf("a second run on a slow machine: %v", err)
		}
		a.end(t)
	})
}
