package hosts

// Network is what the hosts of one run share: bastions, each with one connection, the secrets that a person gave,
// unlocked keys, and a limit on how many connections are made at once. Safe for concurrent use.
type Network struct {
	secrets *secrets
}

// NewNetwork makes a network without hosts. ask may be nil: then a secret that nothing holds is an error.
func NewNetwork(ask Ask) *Network { return &Network{secrets: newSecrets(ask)} }

// Host describes a host. It does no I/O.
func (n *Network) Host(c Config) *Host { return newHost(n, c) }
