package steps

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func TestReach(t *testing.T) {
	tests := []struct {
		name string
		ssh  config.SSH
		want hosts.Config
	}{
		{"nothing is said", config.SSH{}, hosts.Config{}},
		{"as a cluster file leaves it", config.SSH{Config: config.DefaultConfig, Sudo: true, Tunnel: config.Forward}, hosts.Config{SSHConfig: hosts.OpenSSHDefault, Sudo: true}},
		{"everything is said",
			config.SSH{
				User: "ops", Port: 2222, Key: "/k", Certificate: "/c", KnownHosts: "/h", AcceptNewHostKeys: true, Config: "/f",
				Jump: []config.Hop{{Address: "a"}, {User: "u", Address: "b", Port: 23}},
				Sudo: true, SudoPasswordFile: "/p", Tunnel: config.Relay,
			},
			hosts.Config{
				User: "ops", Port: 2222, KeyFiles: []string{"/k"}, CertificateFiles: []string{"/c"}, KnownHostsFiles: []string{"/h"}, AcceptNew: true, SSHConfig: "/f",
				Jump: []hosts.Config{
					{Address: "a", KeyFiles: []string{"/k"}, CertificateFiles: []string{"/c"}, KnownHostsFiles: []string{"/h"}, AcceptNew: true, SSHConfig: "/f"},
					{Address: "b", User: "u", Port: 23, KeyFiles: []string{"/k"}, CertificateFiles: []string{"/c"}, KnownHostsFiles: []string{"/h"}, AcceptNew: true, SSHConfig: "/f"},
				},
				Sudo: true, SudoPasswordFile: "/p", Relay: true,
			}},
		{"without a configuration a hop's user is the host's", config.SSH{User: "ops", Jump: []config.Hop{{Address: "a"}, {User: "u", Address: "b"}}},
			hosts.Config{User: "ops", Jump: []hosts.Config{{Address: "a", User: "ops"}, {Address: "b", User: "u"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Name, tt.want.Address = "cp-1", "192.0.2.1"
			got := reach(config.Host{Name: "cp-1", Address: "192.0.2.1", SSH: tt.ssh})
			if d := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(hosts.Config{}, "Dial")); d != "" {
				t.Errorf("configuration (-want +got):\n%s", d)
			}
		})
	}
}

// An empty list of hops is a word of its own: OpenSSH's configuration is not asked for the way.
func TestNoHops(t *testing.T) {
	s := newStand(t)
	s.note("ssh_config", "Host *\n  ProxyJump 127.0.0.1:1\n")
	s.ssh.Config = filepath.Join(s.fake, "ssh_config")
	if err := s.open(config.Worker).host("w-1").Connect(t.Context()); !errors.Is(err, hosts.ErrSSHConfig) && !errors.Is(err, hosts.ErrUnreachable) {
		t.Errorf("with what the configuration says: error is %v", err)
	}
	s.ssh.Jump = []config.Hop{}
	if err := s.open(config.Worker).host("w-1").Connect(t.Context()); err != nil {
		t.Errorf("without hops: %v", err)
	}
}

// What a person must be asked goes to whoever opened the session.
func TestASessionAsksForSecrets(t *testing.T) {
	s := newStand(t)
	key := s.ssh.Key + "-locked"
	lockKey(t, s.ssh.Key, key)
	c := cluster(1, 0)
	c.Hosts[0].Address, c.Hosts[0].SSH = "127.0.0.1", s.ssh
	c.Hosts[0].SSH.Key = key
	var asked []string
	session := Open(c, func(_ context.Context, q hosts.Question) (hosts.Secret, error) {
		asked = append(asked, q.What)
		return hosts.Secret{}, errors.New("not now")
	})
	defer session.Close()
	err := session.host("cp-1").Connect(t.Context())
	if want := []string{"passphrase of " + key}; cmp.Diff(want, asked) != "" || err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("asked %q, error %v, want %q and the asker's error", asked, err, want)
	}
}

// relays stands in for a host with a program that connects.
type relays struct {
	asked []string
	err   error
}

func (r *relays) Relay(_ context.Context, network, address string) (net.Conn, error) {
	r.asked = append(r.asked, network+" "+address)
	if r.err != nil {
		return nil, r.err
	}
	ours, _ := net.Pipe()
	return ours, nil
}

func TestDialAround(t *testing.T) {
	none, far := errors.New("no program"), errors.New("no route from here")
	tests := []struct {
		name, address string
		direct        error // of a connection from here
		relay         error // of one made on the host
		here, there   int   // how often each is tried
	}{
		{"it answers from here", "192.0.2.1:6443", nil, none, 1, 0},
		{"only the host comes to it", "10.96.0.10:53", far, nil, 1, 1},
		{"nobody comes to it", "192.0.2.1:6443", far, none, 1, 1},
		// A loopback address is another machine's here: what answers there must not be found by accident.
		{"loopback", "127.0.0.1:10257", nil, nil, 0, 1},
		{"loopback, IPv6", "[::1]:10257", nil, nil, 0, 1},
		{"loopback, spelt oddly", "[::ffff:127.0.0.1]:10257", nil, nil, 0, 1},
		{"loopback by name", "localhost:10257", nil, nil, 0, 1},
		{"loopback, and no program", "127.0.0.1:10257", nil, none, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, here := &relays{err: tt.relay}, 0
			conn, err := dialAround(t.Context(), func(context.Context, string, string) (net.Conn, error) {
				here++
				ours, _ := net.Pipe()
				return ours, tt.direct
			}, r, tt.address)
			if here != tt.here || len(r.asked) != tt.there {
				t.Errorf("tried %d times from here, %q on the host, want %d and %d", here, r.asked, tt.here, tt.there)
			}
			fails := tt.relay != nil && tt.there > 0
			if (err != nil) != fails || (conn == nil) != fails || fails && (!errors.Is(err, tt.relay) || here > 0 && !errors.Is(err, tt.direct)) {
				t.Errorf("got %v, %v", conn, err)
			}
		})
	}
}

// withCredentials is a session on the stand that has what it reads from a control plane: the credentials of a, and where
// the API server listens.
func (s *stand) withCredentials(a *authority, kubeconfig, address string) *Session {
	s.t.Helper()
	session := s.open(config.ControlPlane)
	session.Cluster.Kubeconfig = kubeconfig
	session.admin, session.ca = &tls.Config{RootCAs: a.pool()}, a.pem()
	session.endpoints = []endpoint{{"cp-1", address}}
	if err := session.buildClient(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { closeIdle(session.transport.transport) })
	return session
}

// An sshd that forwards nothing is named with all the ways out, and nothing is tried that nobody allowed.
func TestForwardingForbidden(t *testing.T) {
	s := newStand(t)
	s.forbids = true
	session := s.withCredentials(newAuthority(t), "", "127.0.0.1:6443")
	facts := Facts{Cluster: session.observeCluster(t.Context())}
	if !errors.Is(facts.Cluster.Err, hosts.ErrForwardingRefused) {
		t.Fatalf("error is %v, want one that says sshd forbids forwarding", facts.Cluster.Err)
	}
	found := apiReachable(session.Cluster, facts)
	if len(found) != 1 || !found[0].Block {
		t.Fatalf("findings are %v, want one that blocks", found)
	}
	for _, word := range []string{"AllowTcpForwarding", "PermitOpen", "DisableForwarding", "ssh.tunnel: relay", "kubeconfig"} {
		if !strings.Contains(found[0].Fix, word) {
			t.Errorf("the fix does not name %s: %s", word, found[0].Fix)
		}
	}
	if strings.Contains(facts.Cluster.Err.Error(), "another way") {
		t.Errorf("another way was tried: %v", facts.Cluster.Err)
	}
}

// With a kubeconfig the API is reached past an sshd that forwards nothing.
func TestForwardingForbiddenWithAKubeconfig(t *testing.T) {
	s := newStand(t)
	s.forbids = true
	k := newKubeAPI(t)
	session := s.withCredentials(k.ca, k.file, "127.0.0.1:6443")
	nodes, err := session.api().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "by-kubeconfig" {
		t.Fatalf("nodes are %v, %v", nodes, err)
	}
	k.Close()
	_, err = session.api().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !errors.Is(err, hosts.ErrForwardingRefused) || !strings.Contains(err.Error(), "kubeconfig "+k.file) {
		t.Errorf("error is %v, want both ways in it", err)
	}
}
