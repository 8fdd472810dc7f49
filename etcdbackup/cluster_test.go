package etcdbackup

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestObserve(t *testing.T) {
	members := startCluster(t, 3)
	asked := endpoints(members)
	// The storage version is known some time after the start, when the members have agreed on it.
	all := await(t, "three members are well", asked, func(all []Status) bool { return well(all) && all[2].StorageVersion != "" })
	for i, s := range all {
		if s.Endpoint != asked[i] || s.ID != uint64(members[i].Server.MemberID()) || s.ClusterID != uint64(members[i].Server.Cluster().ID()) || len(s.Members) != 3 {
			t.Errorf("%s: id %x, cluster %x, members %v", asked[i], s.ID, s.ClusterID, s.Members)
		}
		if s.Version == "" || s.DBSize == 0 || s.DBInUse == 0 || s.Quota == 0 || s.Revision == 0 || s.Term == 0 || s.Index == 0 || s.Applied == 0 {
			t.Errorf("something is missing in %#v", s)
		}
	}

	added, err := client(t, Access{}, asked[0]).MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a member that never started", asked, only("was added and never started"))
	if _, err := client(t, Access{}, asked[0]).MemberRemove(t.Context(), added.Member.ID); err != nil {
		t.Fatal(err)
	}
	await(t, "the member removed again", asked, well)

	members[2].stop()
	await(t, "one of three is down", asked, only(asked[2].String()+": status: "))
	members[1].stop()
	await(t, "two of three are down", asked, func(all []Status) bool {
		return strings.Contains(strings.Join(Problems(all), "\n"), asked[0].String()+": knows no leader")
	})
}

func TestMoveLeader(t *testing.T) {
	members := startCluster(t, 3)
	asked := endpoints(members)
	all := await(t, "three members are well", asked, well)
	var leader, follower Status
	for _, s := range all {
		if s.ID == s.Leader {
			leader = s
		} else {
			follower = s
		}
	}
	if err := MoveLeader(t.Context(), Access{}, follower.Endpoint, follower.ID); err == nil || !strings.Contains(err.Error(), "it is not the leader") {
		t.Errorf("asked a follower: got %v", err)
	}
	if err := MoveLeader(t.Context(), Access{}, leader.Endpoint, 12345); err == nil || !strings.Contains(err.Error(), "to member 3039: hand over") {
		t.Errorf("to a stranger: got %v", err)
	}
	if err := MoveLeader(t.Context(), Access{}, leader.Endpoint, leader.ID); err != nil {
		t.Errorf("to the leader itself: %v", err)
	}
	for range 2 { // the second finds it done
		if err := MoveLeader(t.Context(), Access{}, leader.Endpoint, follower.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range await(t, "all follow the new leader", asked, well) {
		if s.Leader != follower.ID {
			t.Errorf("%s: leader %x, want %x", s.Name, s.Leader, follower.ID)
		}
	}
	if err := MoveLeader(t.Context(), Access{}, Endpoint{"gone", localHost(t)}, follower.ID); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: got %v", err)
	}
}

// A tunnel that swallows everything costs the limit, and says so; a caller that gives up is not kept.
func TestObserveIsBounded(t *testing.T) {
	silence := Access{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	asked := []Endpoint{{"a", "10.0.0.1:2379"}, {"b", "10.0.0.2:2379"}}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		all := Observe(t.Context(), silence, asked)
		if took := time.Since(start); took != answerLimit || len(Problems(all)) != 2 || !strings.Contains(Problems(all)[1], "b (10.0.0.2:2379): status: no answer within 5s") {
			t.Errorf("after %v: %q", took, Problems(all))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		time.AfterFunc(time.Second, func() { cancel(interrupted) })
		start := time.Now()
		all := Observe(ctx, silence, asked)
		if took := time.Since(start); took != time.Second || !errors.Is(all[0].Err, interrupted) {
			t.Errorf("after %v: %v", took, all[0].Err)
		}
	})
}
