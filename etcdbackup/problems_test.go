package etcdbackup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// healthy returns what three members in order say. Member n has the ID n+1 and the address 10.0.0.n:2379.
func healthy() []Status {
	var members []Member
	for i := range 3 {
		members = append(members, Member{ID: uint64(i + 1), Name: fmt.Sprintf("cp-%d", i),
			PeerURLs: []string{fmt.Sprintf("https://10.0.0.%d:2380", i)}, ClientURLs: []string{fmt.Sprintf("https://10.0.0.%d:2379", i)}})
	}
	var all []Status
	for i, m := range members {
		all = append(all, Status{Endpoint: Endpoint{m.Name, fmt.Sprintf("10.0.0.%d:2379", i)}, ID: m.ID, ClusterID: 0xc, Leader: 1,
			Term: 4, Index: 5000, Applied: 5000, Version: "3.6.8", StorageVersion: "3.6.0", DBSize: 100, Quota: 1000,
			Members: append([]Member(nil), members...)})
	}
	return all
}

func TestProblems(t *testing.T) {
	silent := func(s *Status) { *s = Status{Endpoint: s.Endpoint, Err: errors.New("connection refused")} }
	for name, test := range map[string]struct {
		change func([]Status) []Status
		want   []string // one part of each problem, in order
	}{
		"all well":                       {func(s []Status) []Status { return s }, nil},
		"nobody asked":                   {func([]Status) []Status { return nil }, []string{"no etcd endpoint was asked"}},
		"never observed":                 {func(s []Status) []Status { s[1] = Status{Endpoint: s[1].Endpoint}; return s }, []string{"cp-1 (10.0.0.1:2379): was not asked"}},
		"silent":                         {func(s []Status) []Status { silent(&s[1]); return s }, []string{"cp-1 (10.0.0.1:2379): connection refused"}},
		"all silent":                     {func(s []Status) []Status { silent(&s[0]); silent(&s[1]); silent(&s[2]); return s }, []string{"cp-0", "cp-1", "cp-2"}},
		"silent, named differently":      {func(s []Status) []Status { silent(&s[1]); s[1].Name = "node-b"; return s }, []string{"node-b (10.0.0.1:2379): connection refused"}},
		"answered in part":               {func(s []Status) []Status { s[2].Err = errors.New("list alarms: no answer"); return s }, []string{"cp-2 (10.0.0.2:2379): list alarms: no answer"}},
		"no leader":                      {func(s []Status) []Status { s[2].Leader = 0; return s }, []string{"cp-2 (10.0.0.2:2379): knows no leader", "leaders differ: cp-0 says 1, cp-1 says 1, cp-2 says none"}},
		"two leaders":                    {func(s []Status) []Status { s[2].Leader = 3; return s }, []string{"leaders differ"}},
		"terms":                          {func(s []Status) []Status { s[2].Term = 5; return s }, []string{"raft terms differ: cp-0 says 4, cp-1 says 4, cp-2 says 5"}},
		"another cluster":                {func(s []Status) []Status { s[2].ClusterID = 0xd; return s }, []string{"cluster ids differ: cp-0 says c, cp-1 says c, cp-2 says d"}},
		"split view":                     {func(s []Status) []Status { s[2].Members = s[2].Members[:2]; return s }, []string{"member lists differ"}},
		"learner":                        {func(s []Status) []Status { s[2].Learner, s[2].Members = true, nil; return s }, []string{"cp-2 (10.0.0.2:2379): is a learner"}},
		"downgrade":                      {func(s []Status) []Status { s[0].Downgrading = true; return s }, []string{"cp-0 (10.0.0.0:2379): a downgrade"}},
		"errors":                         {func(s []Status) []Status { s[0].Errors = []string{"etcdserver: no leader"}; return s }, []string{`reports "etcdserver: no leader"`}},
		"alarm":                          {func(s []Status) []Status { s[0].Alarms = []Alarm{{2, "NOSPACE"}}; return s }, []string{"alarm NOSPACE of member 2"}},
		"as far behind as may be":        {func(s []Status) []Status { s[1].Index, s[1].Applied = 4000, 4000; return s }, nil},
		"too far behind":                 {func(s []Status) []Status { s[1].Index, s[1].Applied = 3999, 3999; return s }, []string{"cp-1 (10.0.0.1:2379): is 1001 raft entries behind"}},
		"database nearly full":           {func(s []Status) []Status { s[1].DBSize = 801; return s }, []string{"database has 801 of 1000 bytes"}},
		"database full as may be":        {func(s []Status) []Status { s[1].DBSize = 800; return s }, nil},
		"quota not told":                 {func(s []Status) []Status { s[1].DBSize, s[1].Quota = 1<<40, 0; return s }, nil},
		"versions differ during a roll":  {func(s []Status) []Status { s[0].Version = "3.7.3"; return s }, nil},
		"storage versions differ":        {func(s []Status) []Status { s[0].StorageVersion = "3.7.0"; return s }, []string{"storage versions differ"}},
		"storage version not told":       {func(s []Status) []Status { s[0].StorageVersion = ""; return s }, nil},
		"a member nobody asked":          {func(s []Status) []Status { return s[:2] }, []string{"member cp-2 (3) is in the member list and was not asked"}},
		"an endpoint that is no member":  {func(s []Status) []Status { s[2].ID = 9; return s }, []string{"member cp-2 (3) is in the member list and was not asked", "cp-2 (10.0.0.2:2379): member 9 is in no member list"}},
		"two endpoints to the same one":  {func(s []Status) []Status { s[2].ID = 2; return s }, []string{"cp-1 (10.0.0.1:2379) and cp-2 (10.0.0.2:2379) are the same member 2", "member cp-2 (3) is in the member list and was not asked"}},
		"a single member alone":          {func(s []Status) []Status { s[0].Members = s[0].Members[:1]; return s[:1] }, nil},
		"one bootstrapped a new cluster": {func(s []Status) []Status { s[2].ClusterID, s[2].Members = 0xd, s[2].Members[2:]; return s }, []string{"cluster ids differ", "member lists differ"}},
		"IPv6 silent, named differently": {func(s []Status) []Status { return v6(s, silent) }, []string{"node-b ([fd00::1]:2379): connection refused"}},
		"member that was never started":  {func(s []Status) []Status { return added(s) }, []string{"member 4 (peer https://10.0.0.9:2380) was added and never started"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Problems(test.change(healthy()))
			if len(got) != len(test.want) {
				t.Fatalf("got %d problems %q, want %d with %q", len(got), got, len(test.want), test.want)
			}
			for i, part := range test.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("problem %d: got %q, want %q in it", i, got[i], part)
				}
			}
		})
	}
}

// added returns the statuses after a fourth member was added that never started.
func added(all []Status) []Status {
	for i := range all {
		all[i].Members = append(all[i].Members, Member{ID: 4, PeerURLs: []string{"https://10.0.0.9:2380"}})
	}
	return all
}

func v6(all []Status, silent func(*Status)) []Status {
	for i := range all {
		all[i].Members[1].ClientURLs = []string{"https://[fd00::1]:2379"}
	}
	silent(&all[1])
	all[1].Endpoint = Endpoint{"node-b", "[fd00::1]:2379"}
	return all
}
