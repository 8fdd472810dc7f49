package steps

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The lock is given back however a run ends, also when the operator wants the end at once, and never for long.
func TestRelease(t *testing.T) {
	ended := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	}
	running := func(ctx context.Context) context.Context { return ctx }
	tests := []struct {
		name  string
		ctx   func(context.Context) context.Context
		down  time.Duration
		limit time.Duration
		want  bool
	}{
		{"at the end", running, 0, 0, true},
		{"at once", ended, 0, 0, true},
		{"while the API restarts", running, 10 * time.Second, 11 * time.Second, true},
		{"while the API is gone", running, time.Hour, releaseLimit, false},
		{"at once while the API is gone", ended, time.Hour, hurriedLimit, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leaseServer{}
				a := l.contender(t, "anna", 1)
				if err := a.Take(t.Context()); err != nil {
					t.Fatal(err)
				}
				if tt.down > 0 {
					l.fail(errors.New("connection refused"))
					time.AfterFunc(tt.down, func() { l.fail(nil) })
				}
				began := time.Now()
				err := a.Release(tt.ctx(t.Context()))
				if (err == nil) != tt.want || time.Since(began) > tt.limit {
					t.Errorf("error %v after %s", err, time.Since(began))
				}
				if err != nil && !strings.HasPrefix(err.Error(), "the lock of the cluster could not be released, it expires by itself within 5m0s: ") {
					t.Errorf("error is %v", err)
				}
				if tt.want != (l.holder() == "") {
					t.Errorf("the Lease is %q's", l.holder())
				}
				if err := a.Release(t.Context()); err != nil && tt.want {
					t.Errorf("a second time: %v", err)
				}
			})
		})
	}
}

// A heartbeat between the look and the removal changes the version; whose lock it is counts.
func TestUnlockBesideAHeartbeat(t *testing.T) {
	l := &leaseServer{}
	l.set(holder("bert", 2), 0)
	a := l.contender(t, "anna", 1)
	beats := 2
	a.s.client.(*fake.Clientset).PrependReactor("delete", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if beats--; beats >= 0 {
			l.set(holder("bert", 2), 0)
		}
		return false, nil, nil
	})
	if err := a.s.removeLease(t.Context(), "run-of-bert"); err != nil || l.holder() != "" {
		t.Errorf("error %v, the Lease is %q's", err, l.holder())
	}
	l.set(holder("carl", 3), 0)
	if err := a.s.removeLease(t.Context(), "run-of-bert"); !errors.As(err, new(*HeldError)) || l.holder() == "" {
		t.Errorf("error %v, the Lease is %q's, want it left to carl", err, l.holder())
	}
}

// A Lease that somebody made by hand, without times or a run, is nobody's for ever.
func TestForeignLeases(t *testing.T) {
	name := "somebody"
	for _, spec := range []coordinationv1.LeaseSpec{{}, {HolderIdentity: &name}} {
		l := &leaseServer{}
		l.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: metav1.NamespaceSystem, UID: "1"}, Spec: spec})
		a := l.contender(t, "anna", 1)
		if err := a.Take(t.Context()); err != nil {
			t.Errorf("%+v: %v", spec, err)
		}
		a.end(t)
	}
}
