package steps

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// leaseServer keeps one Lease as an API server does: every write has to know the version that it replaces.
type leaseServer struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	made    int
	down    error // what every request gets
	lose    int   // answers that are lost: the request has its effect, the client gets an error
	writes  int
}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (l *leaseServer) react(action clienttesting.Action) (bool, runtime.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return true, nil, l.down
	}
	object, err := l.answer(action)
	if action.GetVerb() != "get" {
		l.writes++
		if l.lose > 0 {
			l.lose--
			return true, nil, errors.New("connection lost")
		}
	}
	return true, object, err
}

func (l *leaseServer) answer(action clienttesting.Action) (runtime.Object, error) {
	conflict := apierrors.NewConflict(leaseResource, leaseName, errors.New("it was changed"))
	if l.lease == nil && action.GetVerb() != "create" {
		return nil, apierrors.NewNotFound(leaseResource, leaseName)
	}
	switch action.GetVerb() {
	case "create":
		if l.lease != nil {
			return nil, apierrors.NewAlreadyExists(leaseResource, leaseName)
		}
		lease := action.(clienttesting.CreateAction).GetObject().(*coordinationv1.Lease).DeepCopy()
		l.made++
		lease.UID = types.UID(strconv.Itoa(l.made))
		l.put(lease)
	case "update":
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).DeepCopy()
		if lease.ResourceVersion != l.lease.ResourceVersion {
			return nil, conflict
		}
		l.put(lease)
	case "delete":
		p := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
		if p == nil || *p.UID != l.lease.UID || *p.ResourceVersion != l.lease.ResourceVersion {
			return nil, conflict
		}
		l.lease = nil
		return nil, nil
	}
	return l.lease.DeepCopy(), nil
}

func (l *leaseServer) put(lease *coordinationv1.Lease) {
	l.version++
	lease.ResourceVersion = strconv.Itoa(l.version)
	l.lease = lease
}

// set lets the Lease be this holder's, with a heartbeat of that age.
func (l *leaseServer) set(h Holder, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := &coordinationv1.Lease{}
	if l.lease != nil {
		lease = l.lease.DeepCopy()
	}
	h.write(lease, time.Now().Add(-age))
	l.put(lease)
}

func (l *leaseServer) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}

func (l *leaseServer) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil {
		return ""
	}
	return *l.lease.Spec.HolderIdentity
}

func (l *leaseServer) beat() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease.Spec.RenewTime.Time
}

func holder(name string, pid int) Holder {
	return Holder{Run: "run-of-" + name, Name: name + "@laptop", PID: pid, Process: "boot 1 " + strconv.Itoa(pid), Does: "upgrade to v1.36.3"}
}

// contender is a run that wants the lock, with all that its lock said.
type contender struct {
	*Lock
	mu   sync.Mutex
	said []string
	dead map[string]bool // holders whose process on this machine has ended
}

func (l *leaseServer) contender(t *testing.T, name string, pid int) *contender {
	t.Helper()
	s := Open(cluster(1, 1), nil)
	t.Cleanup(func() { s.Close() })
	client := fake.NewClientset()
	client.PrependReactor("*", "leases", l.react)
	s.client = client
	c := &contender{dead: map[string]bool{}}
	c.Lock = s.NewLock(holder(name, pid), func(h Holder) bool { return c.dead[h.Name] }, func(format string, args ...any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.said = append(c.said, fmt.Sprintf(format, args...))
	})
	return c
}

func (c *contender) told() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.said, "\n")
}

// end releases the lock, so that nothing of it is left behind.
func (c *contender) end(t *testing.T) {
	t.Helper()
	if err := c.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheLeaseSaysAll(t *testing.T) {
	l := &leaseServer{}
	a := l.contender(t, "anna", 4711)
	defer a.end(t)
	if err := a.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, held, err := a.s.readLease(t.Context())
	if err != nil || held.Holder.Since.IsZero() || held.Expired() || held.Term != 5*time.Minute || held.Beat.IsZero() {
		t.Errorf("held %+v, %v", held, err)
	}
	held.Since = time.Time{}
	if held.Holder != holder("anna", 4711) {
		t.Errorf("holder is %+v", held.Holder)
	}
	if got := l.holder(); got != "anna@laptop/run-of-anna" {
		t.Errorf("holderIdentity is %q", got)
	}
}

// Of two at once, one gets it, and the other is told by whom.
func TestTwoAtOnce(t *testing.T) {
	for range 50 {
		l := &leaseServer{}
		both := []*contender{l.contender(t, "anna", 1), l.contender(t, "bert", 2)}
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, c := range both {
			wg.Go(func() { errs[i] = c.Take(t.Context()) })
		}
		wg.Wait()
		var held *HeldError
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if errs[winner] != nil || !errors.As(errs[1-winner], &held) || held.Run != both[winner].me.Run {
			t.Fatalf("errors are %v", errs)
		}
		both[1-winner].end(t)
		if l.holder() == "" {
			t.Fatal("the one that had no lock released it")
		}
		both[winner].end(t)
		if l.holder() != "" {
			t.Fatalf("%s still stands there", l.holder())
		}
	}
}

// Whose lock may be taken, and what is said of it.
func TestALockOfAnother(t *testing.T) {
	since := time.Now()
	tests := []struct {
		name  string
		age   time.Duration
		dead  bool
		taken bool
		want  string
	}{
		{"fresh", 12 * time.Second, false, false, "bert@laptop is at work on this cluster: upgrade to v1.36.3, since %s, pid 2, last heartbeat 12s ago"},
		{"silent, as while API servers restart", 5 * time.Minute, false, false, "bert@laptop is at work on this cluster: upgrade to v1.36.3, since %s, pid 2, last heartbeat 5m0s ago"},
		{"expired", 301 * time.Second, false, true, "taking over the lock of bert@laptop: no heartbeat for 5m1s"},
		{"its process has ended", 3 * time.Second, true, true, "taking over the lock of bert@laptop: its process 2 on this machine has ended"},
		{"just now, by a clock of whole seconds", -900 * time.Millisecond, false, false, "bert@laptop is at work on this cluster: upgrade to v1.36.3, since %s, pid 2, last heartbeat 0s ago"},
		{"a little ahead", -30 * time.Second, false, false, "bert@laptop is at work on this cluster: upgrade to v1.36.3, since %s, pid 2, with a heartbeat that is 30s ahead of the API server's clock"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leaseServer{}
				l.set(holder("bert", 2), tt.age)
				since = l.beat()
				a := l.contender(t, "anna", 1)
				a.dead["bert@laptop"] = tt.dead
				began := time.Now()
				err := a.Take(t.Context())
				got := a.told()
				if err != nil {
					got = err.Error()
				}
				want := strings.ReplaceAll(tt.want, "%s", since.Local().Format("2006-01-02 15:04:05"))
				if (err == nil) != tt.taken || got != want || time.Since(began) > 0 {
					t.Errorf("error %v after %s, said\n%s\nwant\n%s", err, time.Since(began), got, want)
				}
				if owner := l.holder(); strings.HasPrefix(owner, "anna") != tt.taken {
					t.Errorf("the Lease is %s's", owner)
				}
				a.end(t)
			})
		})
	}
}

// A heartbeat from the future says nothing of how old it is: it has to stand still for a whole term, on our own clock.
func TestALockWhoseTimesMeanNothing(t *testing.T) {
	for _, beats := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &leaseServer{}
			l.set(holder("bert", 2), -time.Hour)
			a := l.contender(t, "anna", 1)
			if beats {
				go func() {
					time.Sleep(4 * time.Minute)
					l.set(holder("bert", 2), -time.Hour)
				}()
			}
			began := time.Now()
			err := a.Take(t.Context())
			var held *HeldError
			if beats != errors.As(err, &held) || !beats && err != nil {
				t.Errorf("beats %v: error is %v", beats, err)
			}
			if took := time.Since(began); !beats && took < lockTerm || took > lockTerm+time.Minute {
				t.Errorf("beats %v: it took %s", beats, took)
			}
			a.end(t)
		})
	}
}

// A request whose answer was lost had its effect: the lock is ours, and nobody else's.
func TestALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseServer{lose: 1}
		a := l.contender(t, "anna", 1)
		if err := a.Take(t.Context()); err == nil || a.Held() {
			t.Fatalf("error is %v, held %v", err, a.Held())
		}
		if err := a.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.end(t)
		if l.holder() != "" {
			t.Error("it was not released")
		}
		// Also where it was never known to be ours.
		l.lose = 1
		b := l.contender(t, "bert", 2)
		if err := b.Take(t.Context()); err == nil {
			t.Fatal("the answer was not lost")
		}
		b.end(t)
		if l.holder() != "" {
			t.Error("a lock of which the answer was lost was not released")
		}
	})
}

// API servers restart during the work: the lock stays ours, and beats on.
func TestTheAPIIsDownForThreeMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseServer{}
		a := l.contender(t, "anna", 1)
		if err := a.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if age := time.Since(l.beat()); age > lockBeat {
			t.Errorf("the last heartbeat is %s old", age)
		}
		l.fail(errors.New("connection refused"))
		time.Sleep(3 * time.Minute)
		b := l.contender(t, "bert", 2)
		if err := b.Take(t.Context()); err == nil || errors.As(err, new(*HeldError)) {
			t.Errorf("error is %v, want that the API does not answer", err)
		}
		l.fail(nil)
		if err := b.Take(t.Context()); !errors.As(err, new(*HeldError)) {
			t.Errorf("after three minutes the lock was free: %v", err)
		}
		time.Sleep(lockBeat + time.Second) // past the next heartbeat, not beside it
		if age := time.Since(l.beat()); age > lockBeat || a.Err() != nil || isLost(a.Lock) {
			t.Errorf("the last heartbeat is %s old, lost: %v", age, a.Err())
		}
		if want := "no heartbeat of the lock got through for 2m45s; others may take it after 5m0s: read the lock of the cluster: connection refused"; a.told() != want {
			t.Errorf("said\n%s\nwant\n%s", a.told(), want)
		}
		a.end(t)
		b.end(t)
	})
}

func isLost(l *Lock) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// Whoever was cut off for a whole term finds another in the lock. He starts nothing more, and his end leaves it alone.
func TestALostLock(t *testing.T) {
	tests := []struct {
		name   string
		happen func(*leaseServer)
		want   string
	}{
		{"taken", func(l *leaseServer) { l.set(holder("bert", 2), 0) }, "the lock of the cluster was lost, so nothing new was started: bert@laptop is at work on this cluster: "},
		{"removed", func(l *leaseServer) { l.lease = nil }, "the lock of the cluster was removed, as kuberung unlock does; nothing new was started"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leaseServer{}
				a := l.contender(t, "anna", 1)
				if err := a.Take(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, leave, err := a.s.Enter(t.Context(), wholeCluster); err != nil {
					t.Fatal(err)
				} else {
					leave()
				}
				tt.happen(l)
				owner := l.holder()
				<-a.Lost()
				if a.Err() == nil || !strings.HasPrefix(a.Err().Error(), tt.want) {
					t.Errorf("lost: %v", a.Err())
				}
				if _, _, err := a.s.Enter(t.Context(), wholeCluster); !errors.Is(err, a.Err()) {
					t.Errorf("a lane started: %v", err)
				}
				a.end(t)
				if l.holder() != owner {
					t.Errorf("the end of the loser left %q of %q's lock", l.holder(), owner)
				}
			})
		})
	}
}

// A machine that slept, or a process that was stopped, wakes up with a lock that may be another's: it asks first.
func TestALaneAfterALongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseServer{}
		a := l.contender(t, "anna", 1)
		if err := a.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		sleep := func() { // no heartbeat has seen that an hour went by
			a.Lock.mu.Lock()
			a.heard = a.heard.Add(-time.Hour)
			a.Lock.mu.Unlock()
		}
		time.Sleep(10*time.Minute + time.Second)
		quiet := l.writes
		if _, _, err := a.s.Enter(t.Context(), wholeCluster); err != nil || l.writes != quiet {
			t.Errorf("error %v after %d writes, want none: heartbeats are fresh", err, l.writes-quiet)
		}
		sleep()
		before := l.writes
		if _, _, err := a.s.Enter(t.Context(), wholeCluster); err != nil || l.writes != before+1 {
			t.Errorf("error %v after %d writes, want none after a heartbeat", err, l.writes-before)
		}
		sleep()
		l.fail(errors.New("connection refused"))
		_, _, err := a.s.Enter(t.Context(), wholeCluster)
		if want := "whether the lock of the cluster is still ours could not be told: gave up after 3m0s: read the lock of the cluster: connection refused"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		l.fail(nil)
		sleep()
		l.set(holder("bert", 2), 0)
		if _, _, err := a.s.Enter(t.Context(), wholeCluster); err == nil || !strings.Contains(err.Error(), "bert@laptop is at work") {
			t.Errorf("error is %v, want the new holder", err)
		}
		a.end(t)
	})
}

// A run that never got the lock, because the API did not answer, changes nothing.
func TestNoLockNoLane(t *testing.T) {
	l := &leaseServer{down: errors.New("connection refused")}
	a := l.contender(t, "anna", 1)
	if err := a.Take(t.Context()); err == nil {
		t.Fatal("the lock was taken")
	}
	for _, target := range []string{wholeCluster, "w-1"} {
		if _, _, err := a.s.Enter(t.Context(), target); err == nil || err.Error() != "the lock of the cluster was not taken" {
			t.Errorf("error is %v", err)
		}
	}
}
