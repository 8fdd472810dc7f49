package hosts

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// How many connections are being made at once: all from here, and all through one bastion. Each costs the other side a
// process before it knows us, and sshd drops connections at random when many come together (MaxStartups).
const (
	dialsFromHere = 32
	dialsPerHop   = 16
)

// Network is what the hosts of one run share: bastions, each with one connection, the secrets that a person gave,
// unlocked keys, and a limit on how many connections are made at once. Safe for concurrent use.
type Network struct {
	secrets *secrets
	keys    *keyring
	records *records
	dials   chan struct{} // one token per connection being made from here

	mu       sync.Mutex
	hops     map[string]*Host    // by the way to them
	accounts map[string]*account // of sudo
	accepted []string
}

// NewNetwork makes a network without hosts. ask may be nil: then a secret that nothing holds is an error.
func NewNetwork(ask Ask) *Network {
	s := newSecrets(ask)
	return &Network{
		secrets: s, keys: newKeyring(s), records: newRecords(),
		dials: make(chan struct{}, dialsFromHere), hops: map[string]*Host{},
	}
}

// Host describes a host. It does no I/O.
func (n *Network) Host(c Config) *Host { return newHost(n, c) }

// Accepted lists the host keys that [Config.AcceptNew] has recorded so far, each with its host and the file, jump hosts
// included.
func (n *Network) Accepted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.accepted))
}

func (n *Network) noteAccepted(host, key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.accepted = append(n.accepted, host+": "+key)
}

// Close ends the connections to the bastions. Close the hosts first.
func (n *Network) Close() error {
	n.mu.Lock()
	hops := n.hops
	n.hops = map[string]*Host{}
	n.mu.Unlock()
	var errs []error
	for _, h := range hops {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

// hop gives the last host of a way, the same for everybody who goes the same way. first dials the first one.
func (n *Network) hop(way []Config, first dialFunc) *Host {
	last := way[len(way)-1]
	if last.Dial == nil {
		last.Dial = first
	}
	last.Jump = nil // the first hop goes its own way, if ssh_config has one
	if len(way) > 1 {
		last.Jump = way[:len(way)-1]
	}
	var id []string
	for _, c := range way {
		id = append(id, c.identity())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := strings.Join(id, "\n")
	h := n.hops[key]
	if h == nil {
		h = newHost(n, last)
		h.dials = make(chan struct{}, dialsPerHop)
		n.hops[key] = h
	}
	return h
}

// identity tells hops apart: the same text means the same login on the same host, proven in the same way.
func (c Config) identity() string {
	return Quote(append([]string{c.User, c.target(), c.HostKeyAlias, c.Agent, c.SSHConfig, strconv.FormatBool(c.AcceptNew)},
		strings.Join(c.KeyFiles, ":"), strings.Join(c.CertificateFiles, ":"), strings.Join(c.KnownHostsFiles, ":"))...)
}
