package etcdbackup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// answerLimit bounds all questions to one member.
const answerLimit = 5 * time.Second

// Status is what one member said of itself and of the cluster. Where Err is set, the rest is what was known before it.
type Status struct {
	Endpoint

	ID, ClusterID, Leader   uint64
	Term, Index, Applied    uint64 // raft term, committed and applied index
	Revision                int64  // of the key space
	Version, StorageVersion string // of the program; of the database file, empty before etcd 3.6
	Learner                 bool
	Downgrading             bool  // a downgrade is enabled
	DBSize, DBInUse, Quota  int64 // bytes; Quota is 0 where etcd does not tell it (before 3.6)
	Errors                  []string
	Alarms                  []Alarm
	Members                 []Member // this member's own view, sorted by ID; empty for a learner, which may not tell
	Err                     error    // why the member could not be asked, or not completely
}

// Alarm is one raised alarm, such as NOSPACE, and the member that raised it.
type Alarm struct {
	MemberID uint64
	Type     string
}

// Member is one row of a member list.
type Member struct {
	ID         uint64   `json:"id,string"`
	Name       string   `json:"name"` // empty if it was added and never started
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	Learner    bool     `json:"learner,omitempty"`
}

// Observe asks all endpoints at once, each with a limit of 5 s, and returns their answers in the order given.
func Observe(ctx context.Context, access Access, endpoints []Endpoint) []Status {
	all := make([]Status, len(endpoints))
	var group sync.WaitGroup
	for i, endpoint := range endpoints {
		group.Go(func() { all[i] = observe(ctx, access, endpoint) })
	}
	group.Wait()
	return all
}

func observe(ctx context.Context, access Access, endpoint Endpoint) Status {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %s", answerLimit))
	defer cancel()
	s := Status{Endpoint: endpoint}
	client, err := access.open(ctx, endpoint)
	if err != nil {
		s.Err = fmt.Errorf("connect: %w", err)
		return s
	}
	defer client.Close()
	s.Err = s.ask(ctx, client)
	return s
}

// ask fills in the status. A learner answers nothing but the first question.
func (s *Status) ask(ctx context.Context, client *clientv3.Client) error {
	answer, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return because(ctx, "status", err)
	}
	s.fill(answer)
	if s.Learner {
		return nil
	}
	// Serializable: the member's own view. The other kind is answered by the leader for everyone and hides a split.
	members, err := client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return because(ctx, "list members", err)
	}
	for _, m := range members.Members {
		s.Members = append(s.Members, Member{m.ID, m.Name, sorted(m.PeerURLs), sorted(m.ClientURLs), m.IsLearner})
	}
	slices.SortFunc(s.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	// Listing alarms goes through raft: without a quorum there is no answer.
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		return because(ctx, "list alarms", err)
	}
	for _, alarm := range alarms.Alarms {
		s.Alarms = append(s.Alarms, Alarm{alarm.MemberID, alarm.Alarm.String()})
	}
	return nil
}

func (s *Status) fill(answer *clientv3.StatusResponse) {
	header := answer.Header
	s.ID, s.ClusterID, s.Revision = header.GetMemberId(), header.GetClusterId(), header.GetRevision()
	s.Leader, s.Term = answer.Leader, answer.RaftTerm
	s.Index, s.Applied = answer.RaftIndex, answer.RaftAppliedIndex
	s.Version, s.StorageVersion = answer.Version, answer.StorageVersion
	s.Learner, s.Errors = answer.IsLearner, answer.Errors
	s.Downgrading = answer.DowngradeInfo.GetEnabled()
	s.DBSize, s.DBInUse, s.Quota = answer.DbSize, answer.DbSizeInUse, answer.DbSizeQuota
}

// because names the question, and the limit if that is what ended it.
func because(ctx context.Context, question string, err error) error {
	if cause := context.Cause(ctx); cause != nil && !strings.Contains(err.Error(), cause.Error()) {
		return fmt.Errorf("%s: %w: %w", question, cause, err)
	}
	return fmt.Errorf("%s: %w", question, err)
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
