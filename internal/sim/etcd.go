package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// etcd is the members, as one cluster sees them.
type etcd struct {
	w       *World
	members []*member
	leader  *member
	term    uint64
}

type member struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer

	h    *host
	id   uint64
	down bool // by a fault, although its pod runs

	told time.Time // when the operator's last question to it was answered; zero: it was not
}

func (e *etcd) add(h *host) {
	sum := sha256.Sum256([]byte(h.node))
	e.members = append(e.members, &member{h: h, id: binary.BigEndian.Uint64(sum[:8])})
}

func (m *member) up() bool { return m.h.runs("etcd") && !m.down }

func (e *etcd) of(h *host) *member {
	for _, m := range e.members {
		if m.h == h {
			return m
		}
	}
	return nil
}

func (e *etcd) count() int {
	n := 0
	for _, m := range e.members {
		if m.up() {
			n++
		}
	}
	return n
}

func (e *etcd) quorum() bool { return e.count() > len(e.members)/2 }

// works reports whether a member can be written to through a host's own.
func (e *etcd) works(h *host) bool {
	m := e.of(h)
	return m != nil && m.up() && e.quorum() && e.leader != nil
}

// elect finds a leader when there is none any more. An election takes about a second, and nobody leads meanwhile.
func (e *etcd) elect() {
	if e.leader != nil && e.leader.up() && e.quorum() {
		return
	}
	if e.leader == nil && e.term == 0 { // the first of all
		e.lead(e.members[0])
		return
	}
	e.leader = nil
	e.w.after(e.w.between(electionFrom, electionTo), func() {
		if e.leader != nil || !e.quorum() {
			return
		}
		for _, m := range e.members {
			if m.up() {
				e.lead(m)
				return
			}
		}
	})
}

func (e *etcd) lead(m *member) {
	e.leader = m
	e.term++
	e.w.note("etcd: %s leads", m.h.name)
}

// version is that of the member's program, without the v of others and the revision of the image.
func (m *member) version() string {
	tag, _, _ := strings.Cut(m.h.versionOf("etcd"), "-")
	return tag
}

func (m *member) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 7, MemberId: m.id, Revision: snapshotRevision, RaftTerm: m.h.w.etcd.term}
}

// Status implements pb.MaintenanceServer.
func (m *member) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	w := m.h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	m.told = time.Now()
	s := &pb.StatusResponse{
		Header: m.header(), Version: m.version(), StorageVersion: "3.6.0", DbSize: 1 << 20, DbSizeInUse: 1 << 19, DbSizeQuota: 2 << 30,
		RaftTerm: w.etcd.term, RaftIndex: uint64(w.store.revision), RaftAppliedIndex: uint64(w.store.revision),
	}
	if w.etcd.leader != nil {
		s.Leader = w.etcd.leader.id
	} else {
		s.Errors = []string{"etcdserver: no leader"}
	}
	return s, nil
}

// MemberList implements pb.ClusterServer.
func (m *member) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	w := m.h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := &pb.MemberListResponse{Header: m.header()}
	for _, o := range w.etcd.members {
		answer.Members = append(answer.Members, &pb.Member{
			ID: o.id, Name: o.h.node, PeerURLs: []string{"https://" + o.h.address + ":2380"}, ClientURLs: []string{"https://" + o.h.address + ":2379"},
		})
	}
	return answer, nil
}

// Alarm implements pb.MaintenanceServer. It goes through raft.
func (m *member) Alarm(context.Context, *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	w := m.h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.etcd.quorum() || w.etcd.leader == nil {
		return nil, status.Error(codes.Unavailable, "etcdserver: no leader")
	}
	return &pb.AlarmResponse{Header: m.header()}, nil
}

// MoveLeader implements pb.MaintenanceServer.
func (m *member) MoveLeader(_ context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	w := m.h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.etcd.leader != m {
		return nil, status.Error(codes.FailedPrecondition, "etcdserver: not leader")
	}
	for _, o := range w.etcd.members {
		if o.id == r.TargetID && o.up() {
			w.etcd.lead(o)
			return &pb.MoveLeaderResponse{Header: m.header()}, nil
		}
	}
	return nil, status.Error(codes.FailedPrecondition, "etcdserver: bad leader transferee")
}

// Snapshot implements pb.MaintenanceServer: the database, then its digest.
func (m *member) Snapshot(_ *pb.SnapshotRequest, stream grpc.ServerStreamingServer[pb.SnapshotResponse]) error {
	const piece = 32 << 10
	data := prepared.snapshot
	for len(data) > 0 {
		n := min(piece, len(data))
		err := stream.Send(&pb.SnapshotResponse{Blob: data[:n], RemainingBytes: uint64(len(data) - n), Version: "3.6.0"})
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
