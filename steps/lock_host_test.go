package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/kuberung/kuberung/internal/config"
)

// onStand gives a run whose one worker is a stand.
func (l *leaseServer) onStand(t *testing.T, s *stand, name string, pid int) *contender {
	t.Helper()
	c := l.contender(t, name, pid)
	own := c.Lock
	client := c.s.client.(*fake.Clientset)
	c.s = s.open(config.Worker)
	c.s.client = client
	c.Lock = c.s.NewLock(own.me, own.gone, own.log)
	return c
}

const lockOnHost = "/var/lib/kuberung/lock"

func TestALaneLocksItsHost(t *testing.T) {
	s, l := newStand(t), &leaseServer{}
	a := l.onStand(t, s, "anna", 1)
	if err := a.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer a.end(t)
	_, leave, err := a.s.Enter(t.Context(), "w-1")
	if err != nil {
		t.Fatal(err)
	}
	first, note, _ := strings.Cut(s.on(lockOnHost), "\n")
	var told Holder
	if err := json.Unmarshal([]byte(note), &told); err != nil || told.Name != "anna@laptop" || told.PID != 1 || !strings.HasPrefix(first, "run-of-anna 240 ") {
		t.Errorf("the host's lock is %q, %q, %v", first, note, err)
	}
	leave()
	if text := s.on(lockOnHost); text != "" {
		t.Errorf("after the lane the host has %q", text)
	}
	if said := a.told(); said != "" {
		t.Errorf("said %s", said)
	}
}

// A second run, on another machine, that got the Lease while the first was cut off from the API, does not start on a
// host that the first is still changing.
func TestAHostThatAnotherRunChanges(t *testing.T) {
	tests := []struct {
		name  string
		dead  bool
		taken bool
		want  string
	}{
		{"at work", false, false, "bert@laptop is at work on w-1: upgrade to v1.36.3, since "},
		{"its process on this machine has ended", true, true, "taking over the lock of bert@laptop on w-1: its process 2 on this machine has ended"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStand(t)
			b := (&leaseServer{}).onStand(t, s, "bert", 2)
			if err := b.takeHost(t.Context(), b.s.host("w-1")); err != nil {
				t.Fatal(err)
			}
			a := (&leaseServer{}).onStand(t, s, "anna", 1)
			a.dead["bert@laptop"] = tt.dead
			if err := a.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer a.end(t)
			_, leave, err := a.s.Enter(t.Context(), "w-1")
			got := a.told()
			if err != nil {
				got = err.Error()
			}
			if (err == nil) != tt.taken || !strings.HasPrefix(got, tt.want) || !tt.taken && !errors.As(err, new(*HeldError)) {
				t.Errorf("error %v, said %s", err, a.told())
			}
			if leave != nil {
				leave()
			}
			if left := s.on(lockOnHost); strings.HasPrefix(left, "run-of-bert") == tt.taken {
				t.Errorf("the host has %q", left)
			}
			// The one that lost it hears of it with its next heartbeat, and no lane of its own starts.
			if _, err := b.renewHost(t.Context(), b.s.host("w-1")); (err != nil) != tt.taken {
				t.Errorf("bert's heartbeat: %v", err)
			}
		})
	}
}

// A machine that slept for a whole term wakes up in the middle of a lane, on a host that another run has taken: the lane
// ends, and nothing new starts.
func TestALaneWhoseHostIsTaken(t *testing.T) {
	tests := []struct {
		name   string
		happen func(*stand)
		want   string
	}{
		{"taken", func(s *stand) {
			s.file(lockOnHost, strings.Replace(s.on(lockOnHost), "run-of-anna", "run-of-bert", 1))
		}, "the lock of w-1 was lost, so its lane was ended: "},
		{"removed", func(s *stand) { s.remove(lockOnHost) }, "the lock of w-1 was removed, as kuberung unlock does, so its lane was ended"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, l := newStand(t), &leaseServer{}
			a := l.onStand(t, s, "anna", 1)
			a.every = 6 * time.Millisecond
			if err := a.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer a.end(t)
			inside, leave, err := a.s.Enter(t.Context(), "w-1")
			if err != nil {
				t.Fatal(err)
			}
			tt.happen(s)
			left := s.on(lockOnHost)
			<-inside.Done()
			if why := context.Cause(inside); !strings.HasPrefix(why.Error(), tt.want) || !errors.Is(a.Err(), why) || !isLost(a.Lock) {
				t.Errorf("the lane ended with %v, the lock with %v", why, a.Err())
			}
			leave()
			if got := s.on(lockOnHost); got != left {
				t.Errorf("the end of the lane left %q of %q", got, left)
			}
		})
	}
}

// While the API does not answer, a host tells who is at work: nobody waits for another run's kubeadm.
func TestHostsTellWhoIsAtWork(t *testing.T) {
	s := newStand(t)
	b := (&leaseServer{}).onStand(t, s, "bert", 2)
	if err := b.takeHost(t.Context(), b.s.host("w-1")); err != nil {
		t.Fatal(err)
	}
	runningUnit(s, nodeUnit(target), 1<<30)
	a := (&leaseServer{down: errors.New("connection refused")}).onStand(t, s, "anna", 1)
	if err := a.Take(t.Context()); err == nil {
		t.Fatal("the lock was taken")
	}
	var held *HeldError
	if _, err := a.s.ObserveSettled(t.Context(), quiet); !errors.As(err, &held) || held.Name != "bert@laptop" || held.Host != "w-1" {
		t.Errorf("error is %v, want bert's lock", err)
	}
	if err := busy(a.Lock, []Held{{Holder: held.Holder, Host: "w-1", Age: hostTerm + 1, Term: hostTerm}}); err != nil {
		t.Errorf("a lock that expired: %v", err)
	}
}

// Where the API answers only later, the lock is taken then, and everything is looked at once more.
func TestTheLockIsTakenWhenTheAPIAnswers(t *testing.T) {
	_, session, c := standCluster(t)
	l := session.NewLock(holder("anna", 1), func(Holder) bool { return false }, quiet)
	leases := "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	_, err := session.ObserveSettled(t.Context(), quiet)
	// This API server knows no Leases at all: it can be asked, and gives none.
	if err == nil || !strings.HasPrefix(err.Error(), "take the lock of the cluster: ") || l.Held() {
		t.Errorf("error is %v, held %v", err, l.Held())
	}
	c.put(leases, map[string]any{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": map[string]string{"name": leaseName}})
	looks := c.asked["/version"]
	if _, err := session.ObserveSettled(t.Context(), quiet); err != nil || !l.Held() || c.asked["/version"] != looks+2 {
		t.Errorf("error %v, held %v, after %d looks, want one before the lock and one after", err, l.Held(), c.asked["/version"]-looks)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, leave, err := session.Enter(t.Context(), wholeCluster); err == nil {
		leave()
		t.Error("a lane starts with a lock that was released")
	}
}

func TestHostLocksThatWereNotMadeByUs(t *testing.T) {
	s := newStand(t)
	a := (&leaseServer{}).onStand(t, s, "anna", 1)
	s.file(lockOnHost, "x 240 another-boot 5\nby hand, ask bert\n")
	locks, failed := a.s.hostLocks(t.Context())
	if len(locks) != 1 || len(failed) > 0 || locks[0].Name != "somebody" || locks[0].Does != "by hand, ask bert" || locks[0].Run != "x" {
		t.Errorf("locks %+v, failed %v", locks, failed)
	}
	a.s.Close()
	if locks, failed := a.s.hostLocks(t.Context()); len(locks) > 0 || failed["w-1"] == nil {
		t.Errorf("of a host that cannot be asked: %+v, %v", locks, failed)
	}
	if got := fmt.Sprint(Held{Holder: holder("anna", 1), Age: never}); !strings.HasSuffix(got, ", without any heartbeat") {
		t.Errorf("said %s", got)
	}
}
