package steps

import (
	"time"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
)

// Facts is what was observed of a cluster and its hosts: plain data, from which plans, checks and
// reasons are computed without asking anybody again.
type Facts struct {
	Target    string          // version to reach in this rung: "v1.36.3"
	Artifacts Artifacts       // what there is to install for it
	Shelf     []Artifacts     // what there is for the other rungs of a climb
	Cluster   ClusterFacts    // from the API
	Hosts     map[string]Host // by inventory name

	NewHostKeys []string // SSH host keys that were recorded in this run, each with its host and file
}

// Host is what was observed of one host of the cluster file.
type Host struct {
	Name, Role, Address string // as in the cluster file
	Err                 error  // why the host could not be asked; everything below is then unknown

	System   hosts.Facts // what the host tells that is not about Kubernetes
	NodeName string      // who its kubelet is, from its client certificate; Facts.NodeName is the name to use
	Arch     string      // as Go spells it: "amd64"
	CA       string      // the cluster CA certificate found on the host, PEM

	Binaries map[string]Binary // kubeadm, kubelet, kubectl, crictl, where found; the kubelet is the one its unit starts
	Units    []string          // detached runs that are at work: "kubeadm-apply-v1.36.3"
	Instance bool              // kubeadm's instance-config.yaml is there
	CRI      string            // endpoint of the container runtime: "unix:///run/…"
	Missing  []string          // commands that kuberung needs on a host and that are not there
	Staged   map[string]bool   // staged files, by path
	Images   map[string]bool   // image references the container runtime holds
	Free     []Disk
	Kubeadm  map[string]hosts.Record // detached kubeadm runs, by unit name

	// Control planes only.
	Manifests  map[string]Manifest // static pods by component: "kube-apiserver"
	APIVersion string              // what the host's own API server answers
	APIErr     error               // why it does not answer
	Sick       []string            // what its controller manager and scheduler say of themselves, if not well
}

// Binary is an installed program.
type Binary struct {
	Path    string
	Version string // "v1.35.4"; empty when it does not say
	Owner   string // package that owns the file; empty for a plain file
	Doubt   string // why it could not be told if a package does; empty if it could
}

// Disk is the free space below a path.
type Disk struct {
	Path  string
	Mount string // where the file system that holds it is mounted
	Free  int64  // bytes
}

// Manifest is what matters of a static pod's manifest.
type Manifest struct {
	Image     string
	Advertise string // kube-apiserver: host:port it advertises
	Client    string // etcd: host:port where clients reach the member
	Health    string // controller manager and scheduler: host:port of /healthz, as seen from the host
	NoLease   bool   // leader election is switched off
}

// ClusterFacts is what the API says.
type ClusterFacts struct {
	Err error // why the API could not be asked; everything below is then unknown

	Nodes           map[string]Node
	KubeadmVersion  string // kubernetesVersion in the ConfigMap kubeadm-config
	ExternalEtcd    bool
	ProxyImage      string // of the DaemonSet kube-proxy; empty: there is none
	CoreDNSImage    string
	CoreDNSReplicas int32
	Rollout         string // what is missing of a rollout of these two; empty: nothing
	EtcdTag, DNSTag string // pinned in kubeadm-config; empty: as kubeadm has it

	// Read for a plan, not again for every lane.
	Workloads map[string]Workload // by "Deployment default/web": the photo before
	Crashing  map[string]bool     // containers already in a crash loop, by namespace/owner/container
	Daemons   map[string]bool     // DaemonSets with a Ready pod on a node, by "node namespace/name"
	Etcd      EtcdFacts
	Drains    map[string]Drain // by node
	At        time.Time
}

// EtcdFacts is the state of the members, as each of them tells it.
type EtcdFacts struct {
	Problems []string // empty: all members healthy and level
	DBSize   int64    // bytes, the largest member
	Oldest   string   // version of the oldest member: "3.6.6"
}

// Drain is what a drain of one node would meet.
type Drain struct {
	Refused   []drain.Refusal // pods that no consent covers
	Consented []drain.Refusal // pods that go only because a consent covers them
	Never     []string        // pods that a disruption budget will never let go, each with its reason
	NotNow    []string        // pods that a disruption budget would not let go now
	Err       error
}

// Node is a node of the cluster.
type Node struct {
	Name     string
	Kubelet  string // running version
	Ready    bool
	NotReady string // why it is not
	Cordoned bool
	Window   string // our annotation: drain.Cordoned, drain.FoundCordoned or empty
	Address  string // internal address
	Kubelets string // host:port of the kubelet's own API

	MachineID string
	Internal  []string // all internal addresses
	Addresses []string // of every kind, names as well
}

// Workload counts the replicas of a Deployment or StatefulSet.
type Workload struct{ Desired, Ready int32 }
