package steps

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/etcdbackup"
)

// settleTime is how long gates must hold without a break.
const settleTime = 5 * time.Second

// settle is that time, unless the cluster is one that needs no patience.
func (s *Session) settle() time.Duration {
	if s.Cluster.Timeouts.Settle > 0 {
		return s.Cluster.Timeouts.Settle
	}
	return settleTime
}

// AwaitControlPlanes holds the way until etcd and the API servers of all control planes are healthy,
// with moved also until all API servers answer with the target: no kubelet may be newer than one.
func AwaitControlPlanes(s *Session, moved bool) engine.Step[Facts] {
	does := "wait until etcd and every API server are healthy"
	if moved {
		does += " and every API server is at the target"
	}
	return step{
		Name: "await-control-planes",
		Does: does,
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			conditions := []condition{s.etcdLevel()}
			for _, h := range controlPlanes(s.Cluster) {
				conditions = append(conditions, s.apiServerReady(h.Name), s.componentsHealthy(f.Hosts[h.Name]))
				if moved {
					conditions = append(conditions, s.apiServerIs(h.Name, f.Target))
				}
			}
			leases, err := s.leasesRenewed(ctx, f)
			if err != nil {
				return err
			}
			return await(ctx, s.Cluster.Timeouts.Gate, s.settle(), log, all(append(conditions, leases)...))
		},
	}
}

// AwaitControlPlane proves the control plane that kubeadm has just moved, through its own endpoints.
func AwaitControlPlane(s *Session, host string) engine.Step[Facts] {
	return step{
		Name: "await-control-plane",
		Does: "wait until its API server, controller manager, scheduler and etcd member are healthy",
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			leases, err := s.leasesRenewed(ctx, f)
			if err != nil {
				return err
			}
			return await(ctx, s.Cluster.Timeouts.Gate, s.settle(), log, all(s.controlPlaneHealthy(f, host), leases))
		},
	}
}

// AwaitEtcd asks once more, after a drain that may have taken long, before the restart of a kubelet
// takes its etcd member and its API server down for a moment.
func AwaitEtcd(s *Session, host string) engine.Step[Facts] {
	return step{
		Name: "await-etcd",
		Does: "wait until etcd and the other API servers are still healthy",
		Run: func(ctx context.Context, _ Facts, log engine.Logf) error {
			conditions := []condition{s.etcdLevel()}
			for _, h := range controlPlanes(s.Cluster) {
				if h.Name != host {
					conditions = append(conditions, s.apiServerReady(h.Name))
				}
			}
			return await(ctx, s.Cluster.Timeouts.Gate, 0, log, all(conditions...))
		},
	}
}

func (s *Session) controlPlaneHealthy(f Facts, host string) condition {
	return all(
		s.etcdLevel(),
		s.apiServerIs(host, f.Target),
		s.apiServerReady(host),
		s.componentsHealthy(f.Hosts[host]),
	)
}

// componentsHealthy holds when the host's controller manager and scheduler say that they are healthy.
func (s *Session) componentsHealthy(h Host) condition {
	var conditions []condition
	for _, component := range leaders {
		if address := h.Manifests[component].Health; address != "" {
			conditions = append(conditions, s.healthz(h.Name, component, address))
		}
	}
	return all(conditions...)
}

// etcdLevel holds when all members are healthy and level with their leader.
func (s *Session) etcdLevel() condition {
	return func(ctx context.Context) (string, error) {
		access, endpoints := s.etcdAccess()
		return strings.Join(etcdbackup.Problems(etcdbackup.Observe(ctx, access, endpoints)), "; "), nil
	}
}

func (s *Session) endpointOf(host string) (*failover, endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints {
		if e.host == host {
			return s.transport, e, nil
		}
	}
	return nil, endpoint{}, fmt.Errorf("the address of %s's API server is not known", host)
}

// apiServerIs holds when the host's own API server answers with the version.
func (s *Session) apiServerIs(host, version string) condition {
	return func(ctx context.Context) (string, error) {
		transport, e, err := s.endpointOf(host)
		if err != nil {
			return "", err
		}
		answered, err := serverVersion(ctx, transport, e)
		if err == nil && answered != version {
			return fmt.Sprintf("API server of %s answers %s", host, answered), nil
		}
		return "", err
	}
}

// apiServerReady holds when the host's own API server says that it is ready, etcd included.
func (s *Session) apiServerReady(host string) condition {
	return func(ctx context.Context) (string, error) {
		transport, e, err := s.endpointOf(host)
		if err != nil {
			return "", err
		}
		if _, err := transport.get(ctx, e, "/readyz?verbose"); err != nil {
			return fmt.Sprintf("API server of %s: %v", host, err), nil
		}
		return "", nil
	}
}

// healthz holds when a component on the host's loopback says that it is healthy. Its certificate is
// self-signed; that we talk to this host is proven by SSH.
// https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/
func (s *Session) healthz(host, name, address string) condition {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return s.dialHost(ctx, host, address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	return func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/healthz", nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(req)
		if err != nil {
			return fmt.Sprintf("%s of %s: %v", name, host, err), nil
		}
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		if err != nil || response.StatusCode != http.StatusOK {
			return fmt.Sprintf("%s of %s answers %s: %s", name, host, response.Status, firstFailure(string(text))), nil
		}
		return "", nil
	}
}

// leaders are the components of which one instance holds a Lease and works.
var leaders = []string{"kube-controller-manager", "kube-scheduler"}

// leasesRenewed holds once each leader's Lease is held and was renewed after this call. Only that
// the time moves counts: it is written by some host's clock.
func (s *Session) leasesRenewed(ctx context.Context, f Facts) (condition, error) {
	before := map[string]metav1.MicroTime{}
	elected := electing(f)
	err := poll(ctx, s.Cluster.Timeouts.Observe, time.Second, func(ctx context.Context) (bool, error) {
		for _, name := range elected {
			renewed, _, err := s.lease(ctx, name)
			if err != nil {
				return false, err
			}
			before[name] = renewed
		}
		return true, nil
	})
	return func(ctx context.Context) (string, error) {
		for _, name := range elected {
			renewed, holder, err := s.lease(ctx, name)
			if err != nil {
				return "", err
			}
			if was := before[name]; holder == "" || !was.Before(&renewed) {
				return fmt.Sprintf("Lease %s was not renewed yet (holder %q)", name, holder), nil
			}
		}
		return "", nil
	}, err
}

// electing are those of the leaders that elect one at all.
func electing(f Facts) []string {
	var names []string
	for _, name := range leaders {
		off := false
		for _, h := range f.Hosts {
			off = off || h.Manifests[name].NoLease
		}
		if !off {
			names = append(names, name)
		}
	}
	return names
}

func (s *Session) lease(ctx context.Context, name string) (renewed metav1.MicroTime, holder string, err error) {
	l, err := s.api().CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return renewed, "", fmt.Errorf("read Lease %s: %w", name, err)
	}
	if l.Spec.RenewTime != nil {
		renewed = *l.Spec.RenewTime
	}
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	return renewed, holder, nil
}
