package steps

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// reach is how SSH comes to a host of the cluster file. What the file leaves out stays empty, for OpenSSH's
// configuration to fill.
func reach(h config.Host) hosts.Config {
	c := login(h.SSH)
	c.Name, c.Address, c.Port, c.User = h.Name, h.Address, h.SSH.Port, h.SSH.User
	c.Sudo, c.SudoPasswordFile = h.SSH.Sudo, h.SSH.SudoPasswordFile
	c.Relay = h.SSH.Tunnel == config.Relay
	if h.SSH.Jump != nil {
		c.Jump = []hosts.Config{} // else OpenSSH's configuration would be asked for the way
	}
	for _, hop := range h.SSH.Jump {
		c.Jump = append(c.Jump, reachHop(h.SSH, hop))
	}
	return c
}

// reachHop gives a hop the keys and rules of its host. The user of the host is another matter: where OpenSSH's
// configuration has a say, it may know the bastion's.
func reachHop(s config.SSH, hop config.Hop) hosts.Config {
	c := login(s)
	c.Address, c.Port, c.User = hop.Address, hop.Port, hop.User
	if c.User == "" && s.Config == "" {
		c.User = s.User
	}
	return c
}

// login is what a host and the hops to it have in common.
func login(s config.SSH) hosts.Config {
	return hosts.Config{
		KeyFiles: some(s.Key), CertificateFiles: some(s.Certificate),
		KnownHostsFiles: some(s.KnownHosts), AcceptNew: s.AcceptNewHostKeys, SSHConfig: s.Config,
	}
}

func some(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// dialHost connects to an address as a host sees it. An operator who gives a kubeconfig allows ways around an sshd that
// forbids forwarding.
func (s *Session) dialHost(ctx context.Context, host, address string) (net.Conn, error) {
	h := s.host(host)
	conn, err := h.DialContext(ctx, "tcp", address)
	if s.Cluster.Kubeconfig == "" || !errors.Is(err, hosts.ErrForwardingRefused) {
		return conn, err
	}
	conn, around := dialAround(ctx, (&net.Dialer{Timeout: directLimit}).DialContext, h, address)
	if around != nil {
		return nil, fmt.Errorf("%w; nor another way: %w", err, around)
	}
	return conn, nil
}

// directLimit is how long an address of a host may take to answer from here. Where it is behind a firewall nothing
// does, and a program on the host is tried.
const directLimit = 5 * time.Second

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialAround connects from here to what may be reached from here, and else through a program on the host.
func dialAround(ctx context.Context, fromHere dialFunc, h relayer, address string) (net.Conn, error) {
	var direct error
	if !isLoopback(address) {
		var conn net.Conn
		if conn, direct = fromHere(ctx, "tcp", address); direct == nil {
			return conn, nil
		}
	}
	conn, err := h.Relay(ctx, "tcp", address)
	if err != nil {
		return nil, errors.Join(direct, err)
	}
	return conn, nil
}

// relayer is what dialAround wants of a host.
type relayer interface {
	Relay(ctx context.Context, network, address string) (net.Conn, error)
}

// isLoopback holds for an address that means another machine to everybody else. A name may be one.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, notIP := netip.ParseAddr(host)
	return err != nil || notIP != nil || ip.Unmap().IsLoopback()
}
