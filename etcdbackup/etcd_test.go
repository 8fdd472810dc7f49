package etcdbackup

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// startLimit bounds the start of an embedded member on a busy machine.
const startLimit = time.Minute

// member is one embedded etcd.
type member struct {
	*embed.Etcd
	Endpoint
	config *embed.Config
	stop   func() // at the end of the test at the latest
}

// startCluster runs a cluster of n members, named etcd-0 and so on, in this process until the test ends.
func startCluster(t *testing.T, n int, options ...func(*embed.Config)) []*member {
	t.Helper()
	members := make([]*member, n)
	var initial []string
	for i := range members {
		m := newMember(t, fmt.Sprintf("etcd-%d", i))
		initial = append(initial, m.config.Name+"="+m.config.AdvertisePeerUrls[0].String())
		members[i] = m
	}
	for _, m := range members {
		m.config.InitialCluster = strings.Join(initial, ",")
		for _, o := range options {
			o(m.config)
		}
		m.start(t)
	}
	for _, m := range members {
		select {
		case <-m.Server.ReadyNotify():
		case <-time.After(startLimit):
			t.Fatalf("%s is not ready after %v", m.Name, startLimit)
		}
	}
	return members
}

func newMember(t *testing.T, name string) *member {
	c := embed.NewConfig()
	c.Name, c.Dir = name, filepath.Join(t.TempDir(), name)
	c.TickMs, c.ElectionMs = 50, 500
	c.UnsafeNoFsync, c.StrictReconfigCheck = true, false
	c.LogLevel, c.LogOutputs = "fatal", []string{"/dev/null"}
	client, peer := localURL(t), localURL(t)
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = name + "=" + peer.String()
	return &member{config: c, Endpoint: Endpoint{Name: name, Address: client.Host}}
}

// localURL finds a port that is free now.
func localURL(t *testing.T) url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

func (m *member) start(t *testing.T) {
	t.Helper()
	started, err := embed.StartEtcd(m.config)
	if err != nil {
		t.Fatal(err)
	}
	m.Etcd = started
	m.stop = sync.OnceFunc(started.Close)
	t.Cleanup(m.stop)
}

func (m *member) ready(t *testing.T) *member {
	t.Helper()
	m.start(t)
	select {
	case <-m.Server.ReadyNotify():
	case <-time.After(startLimit):
		t.Fatalf("%s is not ready after %v", m.Name, startLimit)
	}
	return m
}

// client connects to one member as the product does.
func client(t *testing.T, access Access, e Endpoint) *clientv3.Client {
	t.Helper()
	c, err := access.open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// fill writes n keys of 1 KiB each.
func fill(t *testing.T, c *clientv3.Client, n int) {
	t.Helper()
	for i := range n {
		if _, err := c.Put(t.Context(), fmt.Sprintf("/registry/%04d", i), strings.Repeat(fmt.Sprintf("%04d", i), 256)); err != nil {
			t.Fatal(err)
		}
	}
}

// endpoints of members.
func endpoints(members []*member) []Endpoint {
	var all []Endpoint
	for _, m := range members {
		all = append(all, m.Endpoint)
	}
	return all
}

// await observes until the problems are as wanted; what was seen last is the error.
func await(t *testing.T, what string, endpoints []Endpoint, want func([]Status) bool) []Status {
	t.Helper()
	deadline := time.Now().Add(startLimit)
	for {
		all := Observe(t.Context(), Access{}, endpoints)
		if want(all) {
			return all
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not seen after %v, last problems: %q", what, startLimit, Problems(all))
		}
		<-time.After(50 * time.Millisecond)
	}
}

func well(all []Status) bool { return len(Problems(all)) == 0 }

// only wants one problem with a part in it.
func only(part string) func([]Status) bool {
	return func(all []Status) bool {
		problems := Problems(all)
		return len(problems) == 1 && strings.Contains(problems[0], part)
	}
}

// tunnel dials, counts, and can cut what it carries: the part that SSH plays.
type tunnel struct {
	limit int64 // bytes it carries from etcd before it breaks; 0 means no limit

	carried atomic.Int64
	mu      sync.Mutex
	dialled []string
}

func (u *tunnel) dial(ctx context.Context, address string) (net.Conn, error) {
	u.mu.Lock()
	u.dialled = append(u.dialled, address)
	u.mu.Unlock()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &cut{conn, u}, nil
}

// to returns the addresses dialled.
func (u *tunnel) to() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Compact(slices.Clone(u.dialled))
}

type cut struct {
	net.Conn
	tunnel *tunnel
}

func (c *cut) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if carried := c.tunnel.carried.Add(int64(n)); c.tunnel.limit > 0 && carried > c.tunnel.limit {
		c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}
