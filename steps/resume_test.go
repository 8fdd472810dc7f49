package steps

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/internal/config"
)

// runningUnit leaves a unit on the host that is at work, until the host was asked for it so many times.
func runningUnit(s *stand, unit string, looks int) {
	dir := "/var/lib/kuberung/units/" + unit
	s.file(dir+"/id", "1\n")
	s.file(dir+"/started", "1700000000\n")
	s.file(dir+"/output", "[upgrade] busy\n")
	s.program("systemctl", fmt.Sprintf(`
n=$(($(cat "$FAKE/looks" 2>/dev/null || echo 0) + 1))
echo $n >"$FAKE/looks"
[ $n -le %d ] || echo code=0 started=1700000000 ended=1700000100 >"$ROOT%s/status"
printf 'Job=0\nActiveState=active\n'`, looks, dir))
}

func TestARunThatIsStillGoingIsWaitedFor(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	runningUnit(s, nodeUnit(target), 1)
	var said []string
	err := session.awaitUnits(t.Context(), func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	if err != nil {
		t.Fatal(err)
	}
	since := time.Unix(1700000000, 0).Local().Format(time.TimeOnly)
	want := "w-1: kubeadm-node-v1.36.3 of an earlier run is still at work since " + since + "; waiting for its end\n" +
		"w-1: kubeadm-node-v1.36.3 has ended"
	if got := strings.Join(said, "\n"); got != want {
		t.Errorf("said\n%s\nwant\n%s", got, want)
	}
}

func TestARunThatNeverEndsIsTold(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	session.Cluster.Timeouts.Kubeadm = time.Second
	runningUnit(s, nodeUnit(target), 1<<30)
	_, err := session.ObserveSettled(t.Context(), quiet)
	if want := "gave up after 1s: kubeadm-node-v1.36.3 is still running on w-1"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// A host that cannot be asked for its units is a finding of the checks, with all that is known of it.
func TestUnitsOfAHostThatCannotBeAskedAreNotWaitedFor(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	session.Close()
	if err := session.awaitUnits(t.Context(), quiet); err != nil {
		t.Error(err)
	}
	f, err := session.ObserveSettled(t.Context(), quiet)
	if err != nil || f.Hosts["w-1"].Err == nil {
		t.Errorf("error %v, host %+v", err, f.Hosts["w-1"])
	}
}

// A cluster without a trace of an earlier run is not waited for, whatever is wrong with it.
func TestObserveSettledWithoutATrace(t *testing.T) {
	_, session, c := standCluster(t)
	f, err := session.ObserveSettled(t.Context(), func(format string, args ...any) { t.Errorf("said "+format, args...) })
	if err != nil || c.asked["/version"] != 1 {
		t.Errorf("error %v after %d looks", err, c.asked["/version"])
	}
	if len(f.Cluster.Etcd.Problems) == 0 {
		t.Error("etcd should be in trouble here")
	}
}
