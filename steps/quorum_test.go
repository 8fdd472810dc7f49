package steps

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kuberung/kuberung/engine"
)

// quorum is two healthy control planes cp-1 and cp-2, at 10.0.0.1 and 10.0.0.2, behind one stand: API
// servers, controller managers, schedulers and etcd members, all at the target.
type quorum struct {
	*stand
	session *Session
	facts   Facts

	mu      sync.Mutex
	ill     map[string]bool // addresses that answer, and not well
	idle    string          // a Lease that nobody renews
	version map[string]string
}

func newQuorum(t *testing.T) *quorum {
	t.Helper()
	s := newStand(t)
	c := cluster(2, 0)
	q := &quorum{stand: s, facts: seen(c, target), ill: map[string]bool{}, version: map[string]string{}}
	for i := range c.Hosts {
		c.Hosts[i].Address, c.Hosts[i].SSH = "127.0.0.1", s.ssh
	}
	q.session = Open(c, nil)
	t.Cleanup(func() { q.session.Close() })
	q.session.transport = newFailover(&tls.Config{InsecureSkipVerify: true}, q.session.dialHost)
	q.session.admin = &tls.Config{}
	for i, h := range c.Hosts {
		ip := fmt.Sprintf("10.0.0.%d", i+1)
		for _, port := range []string{"6443", "10257", "10259", "10250"} {
			address := net.JoinHostPort(ip, port)
			s.listen(address, func(w http.ResponseWriter, r *http.Request) { q.answer(address, w, r) })
		}
		q.member(ip+":2379", uint64(i+1))
		q.session.endpoints = append(q.session.endpoints, endpoint{h.Name, ip + ":6443"})
		q.session.members = append(q.session.members, member{h.Name, ip + ":2379"})
		q.facts.host(h.Name, func(h *Host) {
			h.Manifests["kube-controller-manager"] = Manifest{Health: ip + ":10257"}
			h.Manifests["kube-scheduler"] = Manifest{Health: ip + ":10259"}
		})
		q.facts.node(h.Name, func(n *Node) { n.Kubelets = ip + ":10250" })
	}
	q.session.transport.setEndpoints(q.session.endpoints)
	client := fake.NewClientset()
	client.PrependReactor("get", "leases", q.lease)
	q.session.client = client
	return q
}

func (q *quorum) answer(address string, w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ill[address]:
		says(500, "[-]ping failed: reason withheld")(w, r)
	case r.URL.Path == "/version":
		v := target
		if q.version[address] != "" {
			v = q.version[address]
		}
		says(200, `{"gitVersion":"`+v+`"}`)(w, r)
	default:
		says(200, "ok")(w, r)
	}
}

// lease is renewed each time somebody asks.
func (q *quorum) lease(a clienttesting.Action) (bool, runtime.Object, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name, at := a.(clienttesting.GetAction).GetName(), time.Now()
	if name == q.idle {
		at = time.Unix(1700000000, 0)
	}
	return true, lease(metav1.NamespaceSystem, name, "cp-1_a", at), nil
}

// etcdMember answers what is asked of a member's health.
type etcdMember struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer
	q       *quorum
	id      uint64
	address string
}

func (q *quorum) member(address string, id uint64) {
	q.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		q.t.Fatal(err)
	}
	server := grpc.NewServer()
	m := &etcdMember{q: q, id: id, address: address}
	pb.RegisterMaintenanceServer(server, m)
	pb.RegisterClusterServer(server, m)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	q.t.Cleanup(func() { server.Stop(); <-served })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forward[address] = l.Addr().String()
}

func (m *etcdMember) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	s := &pb.StatusResponse{
		Header: &pb.ResponseHeader{ClusterId: 7, MemberId: m.id}, Leader: 1, RaftTerm: 3,
		RaftIndex: 9, RaftAppliedIndex: 9, Version: fmt.Sprintf("3.6.%d", 4+m.id), DbSize: 1000 + int64(m.id),
	}
	if m.q.ill[m.address] {
		s.Errors = []string{"disk is slow"}
	}
	return s, nil
}

func (m *etcdMember) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Members: []*pb.Member{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}}}, nil
}

func (m *etcdMember) Alarm(context.Context, *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	return &pb.AlarmResponse{}, nil
}

// firstReason runs a gate until it says what it waits for; "" if it lets pass.
func firstReason(t *testing.T, gate engine.Step[Facts], f Facts) string {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	heard := errors.New("heard")
	reason := ""
	err := gate.Run(ctx, f, func(format string, args ...any) {
		if reason == "" {
			reason = strings.TrimPrefix(fmt.Sprintf(format, args...), "waiting: ")
		}
		cancel(heard)
	})
	cancel(nil)
	if err != nil && !errors.Is(err, heard) {
		t.Error(err)
	}
	return reason
}

// Each gate of a control plane asks all that it says, and nothing that would keep a repair from going on.
func TestGatesOfControlPlanes(t *testing.T) {
	const (
		idle      = `Lease kube-scheduler was not renewed yet (holder "cp-1_a")`
		etcd      = `cp-2 (10.0.0.2:2379): reports "disk is slow"`
		api       = "API server of cp-2: /readyz?verbose answers 500 Internal Server Error: ping failed: reason withheld"
		manager   = "kube-controller-manager of cp-2 answers 500 Internal Server Error: ping failed: reason withheld"
		scheduler = "kube-scheduler of cp-2 answers 500 Internal Server Error: ping failed: reason withheld"
		behind    = "API server of cp-2 answers v1.35.4"
	)
	ill := func(address string) func(*quorum) { return func(q *quorum) { q.ill[address] = true } }
	old := func(q *quorum) { q.version["10.0.0.2:6443"] = old }
	all := func(s *Session) step { return AwaitControlPlanes(s, false) }
	moved := func(s *Session) step { return AwaitControlPlanes(s, true) }
	one := func(s *Session) step { return AwaitControlPlane(s, "cp-2") }
	kubelet := func(s *Session) step { return AwaitEtcd(s, "cp-1") }
	static := func(s *Session) step { return AwaitStaticPods(s, "cp-2") }
	tests := []struct {
		name string
		gate func(*Session) step
		is   func(*quorum)
		want string
	}{
		{"all: a member", all, ill("10.0.0.2:2379"), etcd},
		{"all: an API server", all, ill("10.0.0.2:6443"), api},
		{"all: a controller manager", all, ill("10.0.0.2:10257"), manager},
		{"all: a scheduler", all, ill("10.0.0.2:10259"), scheduler},
		{"all: an old API server may be", all, old, idle},
		{"moved: an API server", moved, ill("10.0.0.2:6443"), api},
		{"moved: a scheduler", moved, ill("10.0.0.2:10259"), scheduler},
		{"moved: an old API server", moved, old, behind},
		{"moved: only a Lease", moved, func(*quorum) {}, idle},
		{"one: a member", one, ill("10.0.0.2:2379"), etcd},
		{"one: its controller manager", one, ill("10.0.0.2:10257"), manager},
		{"one: its scheduler", one, ill("10.0.0.2:10259"), scheduler},
		{"one: its API server is old", one, old, behind},
		{"one: another's scheduler", one, ill("10.0.0.1:10259"), idle},
		{"before a restart: a member", kubelet, ill("10.0.0.2:2379"), etcd},
		{"before a restart: the other API server", kubelet, ill("10.0.0.2:6443"), api},
		{"before a restart: its own API server", kubelet, ill("10.0.0.1:6443"), ""},
		{"before a restart: a scheduler", kubelet, ill("10.0.0.2:10259"), ""},
		{"static pods: its own kubelet, where its Node says", static, ill("10.0.0.2:10250"),
			"ask the kubelet of cp-2 for its pods: /pods answers 500 Internal Server Error"},
	}
	q := newQuorum(t)
	q.idle = "kube-scheduler"
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q.mu.Lock()
			q.ill, q.version = map[string]bool{}, map[string]string{}
			tt.is(q)
			q.mu.Unlock()
			if got := firstReason(t, tt.gate(q.session), q.facts); got != tt.want {
				t.Errorf("it waits for %q, want %q", got, tt.want)
			}
		})
	}
}

// What is read once for a plan: of etcd the oldest version and the largest database, and who is not well.
func TestObserveForPlan(t *testing.T) {
	q := newQuorum(t)
	q.ill["10.0.0.1:10259"], q.ill["10.0.0.2:10259"] = true, true
	f := q.facts
	f.Cluster.Etcd = EtcdFacts{}
	f.host("cp-1", func(h *Host) { h.Err = errors.New("no answer") })
	q.session.observeForPlan(t.Context(), &f)
	if e := f.Cluster.Etcd; len(e.Problems) > 0 || e.Oldest != "3.6.5" || e.DBSize != 1002 {
		t.Errorf("etcd is %+v", e)
	}
	if got := strings.Join(f.Hosts["cp-2"].Sick, "; "); !strings.HasPrefix(got, "kube-scheduler of cp-2 answers 500 ") {
		t.Errorf("cp-2 is sick of %q", got)
	}
	if got := f.Hosts["cp-1"].Sick; len(got) > 0 {
		t.Errorf("cp-1, which was not asked, is sick of %q", got)
	}
}
