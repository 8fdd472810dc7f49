// Package config reads the cluster file: the one small file an operator owns.
//
// A [Cluster] is plain data, complete and checked: defaults are filled in, relative paths are
// resolved against the file's directory, every value has been validated. A file with mistakes
// gives an [*Errors] that lists all of them, each with file, line and column.
//
// Parse never touches the disk; Load also checks that the files named by the cluster file exist.
// Neither looks at a host: whether a host answers, or is part of the cluster, is for the checks.
package config

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The roles a host can have.
const (
	ControlPlane = "control-plane"
	Worker       = "worker"
)

// Cluster is one cluster file.
type Cluster struct {
	File string // as given to Load
	Name string // `name`; default: the file's name without its extension

	Target   string   // version to move to, "v1.36.3"; empty when the file names none
	TargetAt Position // where Target was said: in the file, or the flag --to

	Artifacts   string // local directory with the files to install, absolute
	ArtifactsAt Position

	Kubeconfig string // local file with another way to the API server; empty for none

	Data string // local directory for run records and snapshots; default "<name>-data" beside the file

	Hosts    []Host // in the order of the file; names and addresses are unique
	Workers  Workers
	Drain    Drain
	Kubeadm  Kubeadm
	Timeouts Timeouts
}

// Host is one machine of the cluster.
type Host struct {
	Name    string // what the operator calls it
	Address string // IP address or name that SSH dials; IPv6 without brackets
	Role    string // ControlPlane or Worker
	SSH     SSH    // the file's defaults with this host's own values over them
	At      Position
}

// SSH says how a host is reached. What is empty or zero is for OpenSSH's configuration to say.
type SSH struct {
	User        string
	Port        int
	Key         string // path of the private key; empty means those of OpenSSH's configuration, the agent and ~/.ssh
	Certificate string // path of an OpenSSH user certificate
	KnownHosts  string // path

	AcceptNewHostKeys bool   // trust and record the key of a host that known_hosts does not know
	Config            string // path of a file in the form of ssh_config(5), DefaultConfig, or empty for none

	// Jump is the way to the host, first hop first. Nil: OpenSSH's configuration says it; not nil and empty: there
	// are no hops, whatever that says.
	Jump []Hop

	Sudo             bool   // become root with sudo; default true unless User is root
	SudoPasswordFile string // path of a file with the password for sudo; empty: a person is asked if sudo asks
	Tunnel           string // Forward or Relay
}

// Hop is a host on the way to another one. Empty and zero parts are as in SSH.
type Hop struct {
	User, Address string
	Port          int
}

// DefaultConfig stands for OpenSSH's own configuration files.
const DefaultConfig = "default"

// The ways to the ports of a host.
const (
	Forward = "forward" // sshd connects
	Relay   = "relay"   // a program on the host does
)

// Workers says how many workers are taken out of service together, and how often on the way up.
type Workers struct {
	Batch int    // at least 1, the default
	Climb string // EachRung, the default, or Once
}

// The ways of workers over several minors.
const (
	EachRung = "each-rung" // with the control plane, one minor at a time
	Once     = "once"      // straight to the last minor, as late as the version skew policy lets them
)

// Drain says how nodes are emptied. A drain removes managed pods without local data; each list
// widens that to the pods it names as "namespace/name", or to all with "*".
type Drain struct {
	Timeout         time.Duration // per node; default 10m
	DeleteLocalData []string      // pods with an emptyDir, whose content is lost
	DeleteUnmanaged []string      // pods without a controller, which nothing brings back
}

// Kubeadm is passed on to kubeadm.
type Kubeadm struct {
	IgnorePreflightErrors []string // names of preflight checks, never "all"
	Patches               string   // directory on the hosts, absolute; empty for none
	CertificateRenewal    bool     // default true
	Timeouts              KubeadmTimeouts
}

// KubeadmTimeouts are limits inside kubeadm; zero leaves kubeadm's own default.
type KubeadmTimeouts struct {
	UpgradeManifests  time.Duration
	EtcdAPICall       time.Duration
	KubernetesAPICall time.Duration
}

// Timeouts are the limits of our own waits.
type Timeouts struct {
	Kubeadm time.Duration // one detached run of kubeadm; default 80m
	Gate    time.Duration // each gate; default 10m
	Observe time.Duration // an API server that restarts; default 3m
	Stage   time.Duration // upload and image import of one host; default 30m

	Settle time.Duration // how long gates must hold; no key of the file: 0 is right for every real cluster
}

// Load reads the cluster file at path. The error is an [*Errors] when the file could be read but
// is wrong, which includes a key or known_hosts file that does not exist and a password that others can read.
func Load(path string) (*Cluster, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read cluster file: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("find the directory of %s: %w", path, err)
	}
	r := newReader(path, dir)
	c := r.cluster(data)
	r.checkFiles()
	return r.result(c)
}

// Parse reads a cluster file from data. Name stands for the file in positions and gives the
// default of Cluster.Name; relative paths are resolved against dir, which should be absolute.
// It reads no file: the key and known_hosts files need not exist. The error is an [*Errors].
func Parse(name string, data []byte, dir string) (*Cluster, error) {
	r := newReader(name, dir)
	return r.result(r.cluster(data))
}

// SetTarget replaces the target version by one given with the flag --to.
func (c *Cluster) SetTarget(v string) error {
	version, problem := fullVersion(v)
	if problem != "" {
		return fmt.Errorf("--to %s", problem)
	}
	c.Target, c.TargetAt = version, Position{File: "--to"}
	return nil
}
