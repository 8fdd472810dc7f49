package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how to reach one host and how to become root there.
type Config struct {
	Name    string // the operator's name of the host; empty: Address
	Address string // host name or IP address, without port
	Port    int    // 0: 22
	User    string // login user

	// KeyFiles are private keys in any form OpenSSH writes, or public ones whose private half the agent holds,
	// offered in this order; a certificate in KEYFILE-cert.pub is offered with its key. Empty: every key of the
	// agent, then ~/.ssh/id_ed25519, id_ecdsa and id_rsa, as far as they are there.
	KeyFiles []string
	// CertificateFiles are OpenSSH user certificates of these keys, or of keys of the agent.
	CertificateFiles []string
	// Agent is the socket of an ssh-agent; empty: SSH_AUTH_SOCK; "none": no agent.
	Agent string
	// KnownHostsFiles in OpenSSH form; empty: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts. A changed key is
	// always an error.
	KnownHostsFiles []string
	// HostKeyAlias is the name that known_hosts has the host under; empty: address and port.
	HostKeyAlias string
	// AcceptNew records the key of a host that known_hosts does not know in the first of these files, and trusts
	// it from then on. False: an unknown key is an error.
	AcceptNew bool
	// Jump is the way to the host: the first hop is dialled from here, each next one through the one before. A
	// hop's own Jump and Sudo mean nothing. Hosts of one Network share the connections of equal hops. Nil: what
	// SSHConfig says, if there is one; not nil and empty: none.
	Jump []Config
	// SSHConfig is a file in the form of ssh_config(5) that fills what is empty here; "default": OpenSSH's own
	// files; empty: none is read. What stands here wins.
	SSHConfig string

	// Sudo: privileged commands go through sudo. False: the login user must be root.
	Sudo bool
	// SudoPasswordFile holds the password, on its first line, for a sudo that asks; empty: a person is asked.
	SudoPasswordFile string
	// Relay: connections to ports of the host go through a program on it, for an sshd that forbids forwarding.
	Relay bool
	// ConnectTimeout covers TCP, key exchange and authentication together. 0: 10 seconds.
	ConnectTimeout time.Duration

	// Dial opens the connection SSH runs over, from here to the host or to its first hop; nil: a net.Dialer. With
	// one, a ProxyJump in SSHConfig is not followed.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Host is one machine behind SSH. Safe for concurrent use.
type Host struct {
	net           *Network
	name, address string // as given
	cfg           Config
	tune          tuning

	dialing chan struct{} // holds one token while somebody dials
	dials   chan struct{} // of a jump host: one token per connection being made through it

	// What the first dial completes, before there is a connection, cfg included; nobody else reads it earlier.
	completed     bool
	everyAgentKey bool // offer all the agent holds, not only what the key files name

	noSFTP     atomic.Bool   // SFTP does not work here: files go by exec
	relaySlots chan struct{} // one token per open relay
	root       *root         // how root is reached

	mu     sync.Mutex
	conn   *conn   // the newest connection, perhaps lost; nil before the first
	relays []*conn // those that carry relays
	closed bool
	alone  bool // nobody else uses the network
}

// tuning holds the waits and places that tests shorten or move.
type tuning struct {
	keepaliveEvery time.Duration // between two keepalives
	keepaliveLimit time.Duration // for the answer to one
	channelLimit   time.Duration // for the server to open a channel, or to refuse it
	sftpStart      time.Duration // for the SFTP server to say its version
	stallLimit     time.Duration // for a file on its way to move on
	outputGrace    time.Duration // silence after the exit status that ends the wait for more output
	pollEvery      time.Duration // between two looks at a detached unit
	retryFrom      time.Duration // first pause before reconnecting; doubles
	retryTo        time.Duration // longest pause before reconnecting
	sudoLimit      time.Duration // for sudo to ask for the password, and to begin with it
	sudoSilence    time.Duration // after which an unfinished line of sudo is a question
	stateDir       string        // where the host keeps what is ours
	selinuxDir     string        // there, SELinux shows itself when it is on
	searchPath     string
	environment    []string // NAME=value, for programs on the host
}

const (
	sessionsPerConn = 8 // sshd's MaxSessions is 10; two stay free for ending remote processes
	defaultPort     = 22
	defaultConnect  = 10 * time.Second
	defaultTimeout  = 2 * time.Minute
)

// New describes a host that shares nothing with others. It does no I/O.
func New(c Config) *Host {
	h := NewNetwork(nil).Host(c)
	h.alone = true
	return h
}

// newHost describes a host of a network.
func newHost(n *Network, c Config) *Host {
	if c.Name == "" {
		c.Name = c.Address
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnect
	}
	return &Host{
		net:     n,
		name:    c.Name,
		address: c.Address,
		cfg:     c,
		dialing: make(chan struct{}, 1),
		root:    newRoot(),

		relaySlots: make(chan struct{}, relayConns*sessionsPerConn),
		tune: tuning{
			keepaliveEvery: 15 * time.Second,
			keepaliveLimit: 15 * time.Second,
			channelLimit:   30 * time.Second,
			sftpStart:      20 * time.Second,
			stallLimit:     10 * time.Minute,
			outputGrace:    time.Second,
			pollEvery:      time.Second,
			retryFrom:      time.Second,
			retryTo:        15 * time.Second,
			sudoLimit:      30 * time.Second,
			sudoSilence:    2 * time.Second,
			stateDir:       "/var/lib/kuberung",
			selinuxDir:     "/sys/fs/selinux",
			searchPath:     searchPath,
		},
	}
}

// Name is the operator's name of the host.
func (h *Host) Name() string { return h.name }

// Address is the configured host name or IP address, without port.
func (h *Host) Address() string { return h.address }

// port is where SSH listens.
func (c Config) port() int {
	if c.Port == 0 {
		return defaultPort
	}
	return c.Port
}

// target is where SSH listens, host:port.
func (c Config) target() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.port())) }

func (h *Host) target() string { return h.cfg.target() }

// Connect makes sure there is a live connection: dials, verifies the host key, authenticates.
// Errors match [ErrUnreachable], [ErrHostKeyUnknown], [ErrHostKeyChanged] or [ErrAuth].
func (h *Host) Connect(ctx context.Context) error {
	_, err := h.connection(ctx)
	return err
}

// Close ends the connections and every call that uses them. The host cannot be used afterwards.
// Detached units go on.
func (h *Host) Close() error {
	h.mu.Lock()
	all := slices.Clone(h.relays)
	if h.conn != nil {
		all = append(all, h.conn)
	}
	h.closed = true
	h.mu.Unlock()
	for _, c := range all {
		c.fail(net.ErrClosed)
		c.loops.Wait()
	}
	if h.alone {
		return h.net.Close()
	}
	return nil
}

// connection returns the live connection, dialling if there is none. Callers that come together share one dial.
func (h *Host) connection(ctx context.Context) (*conn, error) {
	if c, err := h.current(); c != nil || err != nil {
		return c, err
	}
	select {
	case h.dialing <- struct{}{}:
		defer func() { <-h.dialing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the connection to %s: %w", h.name, context.Cause(ctx))
	}
	if c, err := h.current(); c != nil || err != nil {
		return c, err
	}
	c, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		c.fail(net.ErrClosed)
		return nil, h.errClosed()
	}
	h.conn = c
	return c, nil
}

// current returns the connection in use if it is alive, nil if somebody must dial.
func (h *Host) current() (*conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.errClosed()
	}
	if h.conn != nil && h.conn.alive() {
		return h.conn, nil
	}
	return nil, nil
}

func (h *Host) errClosed() error { return fmt.Errorf("host %s: %w", h.name, net.ErrClosed) }

// onConn calls use with a connection, and once more with a fresh one if the first proved dead
// before use had sent anything (use says so with errNotSent).
func (h *Host) onConn(ctx context.Context, use func(*conn) error) error {
	for attempt := 0; ; attempt++ {
		c, err := h.connection(ctx)
		if err != nil {
			return err
		}
		err = use(c)
		if attempt == 0 && errors.Is(err, errNotSent) && errors.Is(err, ErrConnLost) && ctx.Err() == nil {
			continue
		}
		return err
	}
}
