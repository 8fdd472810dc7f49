package steps

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sort"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kuberung/kuberung/etcdbackup"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// Session is the open door to one cluster: an SSH connection per host, and through those of the
// control planes its API servers and etcd members. Credentials are read over SSH and live in memory
// only. It connects when first asked and again after a lost connection.
type Session struct {
	Cluster *config.Cluster
	network *hosts.Network
	hosts   map[string]*hosts.Host

	mu        sync.Mutex
	artifacts map[string]Artifacts // by version
	versions  []string             // that a rung may lead to
	endpoints []endpoint           // API servers, in the order of the cluster file
	client    kubernetes.Interface
	transport *failover
	admin     *tls.Config
	ca        []byte // that of the cluster, PEM
	etcdTLS   *tls.Config
	members   []member
	base      Facts // what the last full observation found
	lock      *Lock // nil: nothing is to be changed, so nobody is kept out
}

// endpoint is one API server, reached through the host it runs on. Without a host, address is a kubeconfig.
type endpoint struct{ host, address string }

// owner names it for people.
func (e endpoint) owner() string {
	if e.host == "" {
		return "kubeconfig " + e.address
	}
	return e.host
}

// member is one etcd member, reached through the host it runs on.
type member struct{ host, address string }

// Open prepares a session. It does no I/O. Secrets that nothing holds are asked for with ask; nil: nobody is there.
func Open(c *config.Cluster, ask hosts.Ask) *Session { return OpenThrough(c, ask, nil) }

// OpenThrough is Open where connections to the hosts, or to the first hop before them, are made by dial; nil: by a
// net.Dialer.
func OpenThrough(c *config.Cluster, ask hosts.Ask, dial dialFunc) *Session {
	s := &Session{Cluster: c, network: hosts.NewNetwork(ask), hosts: map[string]*hosts.Host{}}
	for _, h := range c.Hosts {
		way := reach(h)
		way.Dial = dial
		s.hosts[h.Name] = s.network.Host(way)
	}
	return s
}

// Close ends all connections.
func (s *Session) Close() error {
	var errs []error
	for _, h := range s.hosts {
		errs = append(errs, h.Close())
	}
	return errors.Join(append(errs, s.network.Close())...)
}

func (s *Session) host(name string) *hosts.Host { return s.hosts[name] }

// connectAPI builds the API and etcd clients from what a first look at the hosts found. The admin
// kubeconfig and the etcd client certificate come from the first control plane that has them.
func (s *Session) connectAPI(ctx context.Context, seen map[string]Host) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoints, s.members = endpointsOf(s.Cluster, seen)
	if s.client != nil {
		s.transport.setEndpoints(s.endpoints)
		return s.completeEtcd(ctx)
	}
	var errs []error
	for _, e := range s.endpoints {
		if err := s.readCredentials(ctx, e.host); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.host, err))
			continue
		}
		return s.buildClient()
	}
	if len(errs) == 0 {
		return errNobodyAsked
	}
	return errors.Join(errs...)
}

// errNobodyAsked: what is in the way is told of the control planes themselves.
var errNobodyAsked = errors.New("no control plane of the cluster file could be asked for its API server's address")

func endpointsOf(c *config.Cluster, seen map[string]Host) (api []endpoint, etcd []member) {
	for _, h := range c.Hosts {
		if h.Role != config.ControlPlane {
			continue
		}
		if address := seen[h.Name].Manifests["kube-apiserver"].Advertise; address != "" {
			api = append(api, endpoint{h.Name, address})
		}
		if address := seen[h.Name].Manifests["etcd"].Client; address != "" {
			etcd = append(etcd, member{h.Name, address})
		}
	}
	return api, etcd
}

const (
	adminConf = "/etc/kubernetes/admin.conf"
	etcdPKI   = "/etc/kubernetes/pki/etcd/"
)

func (s *Session) readCredentials(ctx context.Context, name string) error {
	h := s.host(name)
	raw, err := h.ReadFile(ctx, adminConf)
	if err != nil {
		return err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", adminConf, err)
	}
	s.admin, err = rest.TLSConfigFor(cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", adminConf, err)
	}
	s.ca = cfg.CAData
	if len(s.members) == 0 {
		return nil
	}
	s.etcdTLS, err = readEtcdTLS(ctx, h)
	return err
}

// completeEtcd reads the certificate for etcd if a member is known only now: the control plane that was asked first
// may not have had one at the time.
func (s *Session) completeEtcd(ctx context.Context) error {
	if s.etcdTLS != nil || len(s.members) == 0 {
		return nil
	}
	var errs []error
	for _, m := range s.members {
		var err error
		if s.etcdTLS, err = readEtcdTLS(ctx, s.host(m.host)); err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", m.host, err))
	}
	return errors.Join(errs...)
}

// readEtcdTLS reads the certificate that kubeadm makes for etcd's health checks; without etcd's own
// RBAC it may do everything.
func readEtcdTLS(ctx context.Context, h *hosts.Host) (*tls.Config, error) {
	var pem [3][]byte
	for i, name := range []string{"ca.crt", "healthcheck-client.crt", "healthcheck-client.key"} {
		var err error
		if pem[i], err = h.ReadFile(ctx, etcdPKI+name); err != nil {
			return nil, err
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem[0]) {
		return nil, fmt.Errorf("%sca.crt: no certificate in it", etcdPKI)
	}
	pair, err := tls.X509KeyPair(pem[1], pem[2])
	if err != nil {
		return nil, fmt.Errorf("%shealthcheck-client: %w", etcdPKI, err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

const userAgent = "kuberung"

func (s *Session) buildClient() error {
	s.transport = newFailover(s.admin, s.dialHost)
	if file := s.Cluster.Kubeconfig; file != "" {
		var err error
		if s.transport.outside, err = openKubeconfig(file, s.ca); err != nil {
			return err
		}
	}
	s.transport.setEndpoints(s.endpoints)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://kubernetes.invalid", Transport: s.transport,
		QPS: 50, Burst: 100, UserAgent: userAgent,
	})
	if err != nil {
		return err
	}
	s.client = client
	return nil
}

// api is the client; it fails over between the API servers of all control planes.
func (s *Session) api() kubernetes.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// etcdAccess gives the way to the members and their endpoints.
func (s *Session) etcdAccess() (etcdbackup.Access, []etcdbackup.Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	via := map[string]string{}
	var endpoints []etcdbackup.Endpoint
	for _, m := range s.members {
		via[m.address] = m.host
		endpoints = append(endpoints, etcdbackup.Endpoint{Name: m.host, Address: m.address})
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		host, ok := via[address]
		if !ok {
			return nil, fmt.Errorf("%s belongs to no control plane of the cluster file", address)
		}
		return s.dialHost(ctx, host, address)
	}
	return etcdbackup.Access{TLS: s.etcdTLS, Dial: dial}, endpoints
}

// eachHost runs f for all hosts at once and waits for all.
func (s *Session) eachHost(f func(config.Host)) {
	var wg sync.WaitGroup
	for _, h := range s.Cluster.Hosts {
		wg.Go(func() { f(h) })
	}
	wg.Wait()
}

// Observe reads everything that a check or a plan needs, from all hosts at once and from the API.
// What could not be asked is in the facts, as Err of a host or of the cluster.
func (s *Session) Observe(ctx context.Context) Facts {
	f := Facts{Target: s.Cluster.Target, Hosts: map[string]Host{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	wg.Go(func() { f.Artifacts = s.loadArtifacts(f.Target) })
	s.eachHost(func(h config.Host) {
		seen := s.observeHost(ctx, h)
		mu.Lock()
		defer mu.Unlock()
		f.Hosts[h.Name] = seen
	})
	wg.Wait()
	f.NewHostKeys = s.network.Accepted()
	if err := s.connectAPI(ctx, f.Hosts); err != nil {
		f.Cluster.Err = err
		return f
	}
	s.observeAPIServers(ctx, f.Hosts)
	f.Cluster = s.observeCluster(ctx)
	if f.Cluster.Err == nil {
		f.Shelf = s.loadShelf(f)
		f = Aim(s.Cluster, f)
		s.observeForPlan(ctx, &f)
	}
	s.mu.Lock()
	s.base = f
	s.mu.Unlock()
	return f
}

// ObserveTarget reads afresh what the steps of one target decide on, and waits for an API server
// that restarts. The other hosts are as they were when the session last saw them.
func (s *Session) ObserveTarget(ctx context.Context, target string) (Facts, error) {
	f := s.last()
	var reason error
	err := poll(ctx, s.Cluster.Timeouts.Observe, 2*time.Second, func(ctx context.Context) (bool, error) {
		reason = s.refresh(ctx, &f, target)
		return reason == nil, reason
	})
	if err != nil {
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	merged := f
	merged.Hosts = copyHosts(s.base.Hosts) // lanes side by side each bring their own host
	if h, ok := f.Hosts[target]; ok {
		merged.Hosts[target] = h
	}
	s.base = merged
	return merged, nil
}

func (s *Session) last() Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.base
	f.Hosts = copyHosts(f.Hosts)
	return f
}

func copyHosts(from map[string]Host) map[string]Host {
	to := make(map[string]Host, len(from))
	for name, h := range from {
		to[name] = h
	}
	return to
}

func (s *Session) refresh(ctx context.Context, f *Facts, target string) error {
	for _, h := range s.Cluster.Hosts {
		if h.Name != target {
			continue
		}
		seen := s.observeHost(ctx, h)
		if seen.Err != nil {
			return seen.Err
		}
		one := map[string]Host{target: seen}
		s.observeAPIServers(ctx, one)
		f.Hosts[target] = one[target]
	}
	fresh := s.observeCluster(ctx)
	if fresh.Err != nil {
		return fresh.Err
	}
	old := f.Cluster
	f.Cluster = fresh
	f.Cluster.Workloads, f.Cluster.Crashing, f.Cluster.Daemons = old.Workloads, old.Crashing, old.Daemons
	f.Cluster.Etcd, f.Cluster.Drains = old.Etcd, old.Drains
	return nil
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
