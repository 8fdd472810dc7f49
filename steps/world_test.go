package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

const (
	old    = "v1.35.4"
	target = "v1.36.3"
)

// observedAt is when facts are seen.
var observedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cluster is the file of a cluster with so many control planes cp-1, cp-2, … and workers w-1, w-2, …
func cluster(cps, nodes int) *config.Cluster {
	c := &config.Cluster{
		File: "prod.yaml", Name: "prod", Target: target,
		TargetAt:    config.Position{File: "prod.yaml", Line: 2, Column: 9},
		Artifacts:   "/srv/files",
		ArtifactsAt: config.Position{File: "prod.yaml", Line: 3, Column: 12},
		Workers:     config.Workers{Batch: 1},
		Drain:       config.Drain{Timeout: time.Minute},
		Kubeadm:     config.Kubeadm{CertificateRenewal: true},
		Timeouts:    config.Timeouts{Kubeadm: time.Hour, Gate: 10 * time.Minute, Observe: 3 * time.Minute, Stage: time.Hour},
	}
	add := func(name, role string) {
		c.Hosts = append(c.Hosts, config.Host{
			Name: name, Role: role, Address: "192.0.2.1",
			At: config.Position{File: "prod.yaml", Line: 5 + len(c.Hosts), Column: 5},
		})
	}
	for i := range cps {
		add(fmt.Sprintf("cp-%d", i+1), config.ControlPlane)
	}
	for i := range nodes {
		add(fmt.Sprintf("w-%d", i+1), config.Worker)
	}
	return c
}

// nodeName is another name than that in the file: whoever mixes them up finds nothing.
func nodeName(host string) string { return "node-of-" + host }

// seen are the facts of a healthy cluster whose programs are all of one version.
func seen(c *config.Cluster, at string) Facts {
	f := Facts{
		Target: c.Target, Artifacts: files(c.Target), Hosts: map[string]Host{},
		Cluster: ClusterFacts{
			Nodes: map[string]Node{}, KubeadmVersion: at, Drains: map[string]Drain{},
			ProxyImage: "registry.k8s.io/kube-proxy:" + at, CoreDNSImage: "registry.k8s.io/coredns/coredns:v1.13.1", CoreDNSReplicas: 2,
			Workloads: map[string]Workload{}, Crashing: map[string]bool{}, Etcd: EtcdFacts{DBSize: 64 << 20},
		},
	}
	for i, h := range c.Hosts {
		seen := Host{
			Name: h.Name, Role: h.Role, NodeName: nodeName(h.Name), Arch: "amd64", CA: "the CA",
			System: hosts.Facts{At: observedAt, Init: hosts.Init{Name: "systemd", SystemdRun: true}},
			CRI:    "unix:///run/containerd/containerd.sock", Binaries: map[string]Binary{},
			Staged: map[string]bool{}, Images: map[string]bool{}, Kubeadm: map[string]hosts.Record{}, Manifests: map[string]Manifest{},
		}
		for _, name := range binaries {
			seen.Binaries[name] = Binary{Path: "/usr/bin/" + name, Version: at}
		}
		for _, dir := range []string{"/var/lib", "/etc/kubernetes", "/usr/bin", "/var/lib/containerd"} {
			seen.Free = append(seen.Free, Disk{dir, "/", 100 << 30})
		}
		if h.Role == config.ControlPlane {
			for _, component := range controlPlaneComponents {
				seen.Manifests[component] = manifest(component, at)
			}
			seen.APIVersion = at
		}
		f.Hosts[h.Name] = seen
		f.Cluster.Nodes[seen.NodeName] = Node{Name: seen.NodeName, Kubelet: at, Ready: true, Address: fmt.Sprintf("10.0.0.%d", i+1)}
		f.Cluster.Drains[seen.NodeName] = Drain{}
	}
	return f
}

// etcdTags is the etcd that the kubeadm of each version wants.
var etcdTags = map[string]string{old: "3.6.6-0", target: "3.6.8-0", "v1.36.1": "3.6.8-0", "v1.35.3": "3.6.6-0", "v1.37.2": "3.7.1-0",
	"v1.33.9": "3.5.24-0", "v1.34.4": "3.6.5-0", "v1.34.7": "3.6.5-0", "v1.35.6": "3.6.6-0", "v1.36.4": "3.6.8-0", "v1.38.0": "3.7.2-0", "v1.39.1": "3.7.2-0"}

func manifest(component, at string) Manifest {
	tag := at
	if component == "etcd" {
		tag = etcdTags[at]
	}
	return Manifest{Image: "registry.k8s.io/" + component + ":" + tag}
}

// files are artifacts of a version, for amd64, with made-up sizes and digests.
func files(version string) Artifacts {
	a := Artifacts{Version: version}
	add := func(name string, size int64, images ...string) {
		sum := sha256.Sum256([]byte(version + name))
		a.Files = append(a.Files, Artifact{
			Path: "/srv/files/" + version + "/linux-amd64/" + name, Arch: "amd64", Name: name,
			SHA256: hex.EncodeToString(sum[:]), Size: size, Images: images,
		})
	}
	for _, name := range binaries {
		add(name, 50<<20)
	}
	for _, image := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		add(image+".tar", 30<<20, "registry.k8s.io/"+image+":"+version)
	}
	add("etcd.tar", 20<<20, "registry.k8s.io/etcd:"+etcdTags[version])
	add("coredns.tar", 20<<20, "registry.k8s.io/coredns/coredns:v1.14.0")
	add("pause.tar", 1<<20, "registry.k8s.io/pause:3.10.1")
	return a
}

// climbing are the facts of a healthy cluster, with artifacts of these versions on the shelf; pointed at the first rung.
func climbing(c *config.Cluster, at string, shelf ...string) Facts {
	f := seen(c, at)
	for _, v := range shelf {
		f.Shelf = append(f.Shelf, files(v))
	}
	f.Shelf = append(f.Shelf, f.Artifacts)
	return Aim(c, f)
}

// climber is the file of a cluster on its way to a version.
func climber(cps, nodes int, to, climb string) *config.Cluster {
	c := cluster(cps, nodes)
	c.Target, c.Workers.Climb = to, climb
	return c
}

// host changes what was observed of one host.
func (f Facts) host(name string, change func(*Host)) {
	h := f.Hosts[name]
	h.Binaries, h.Staged, h.Images = maps.Clone(h.Binaries), maps.Clone(h.Staged), maps.Clone(h.Images)
	h.Kubeadm, h.Manifests = maps.Clone(h.Kubeadm), maps.Clone(h.Manifests)
	change(&h)
	f.Hosts[name] = h
}

// node changes what was observed of one host's node.
func (f Facts) node(host string, change func(*Node)) {
	name := f.NodeName(host)
	n := f.Cluster.Nodes[name]
	change(&n)
	f.Cluster.Nodes[name] = n
}

// clone copies what the helpers above change.
func (f Facts) clone() Facts {
	f.Hosts, f.Cluster.Nodes = maps.Clone(f.Hosts), maps.Clone(f.Cluster.Nodes)
	return f
}

// binary replaces a program.
func (h *Host) binary(name, version string) {
	b := h.Binaries[name]
	b.Version = version
	h.Binaries[name] = b
}

// staged puts files and images of the target on a host.
func (f Facts) staged(name string) {
	f.host(name, func(h *Host) {
		for _, a := range staging(f, *h) {
			if a.Images == nil {
				h.Staged[a.stagedAt(f.Target)] = true
			}
			for _, image := range a.Images {
				h.Images[image] = true
			}
		}
	})
}

// moved is a control plane that kubeadm has moved, under this unit.
func (f Facts) moved(name, unit string) {
	f.host(name, func(h *Host) {
		h.binary("kubeadm", f.Target)
		for _, component := range controlPlaneComponents {
			h.Manifests[component] = manifest(component, f.Target)
		}
		h.APIVersion = f.Target
		h.Kubeadm[unit] = hosts.Record{State: hosts.Exited, Claimed: true}
	})
}

// arrived is a host whose kubelet runs in the target's version.
func (f Facts) arrived(name string) {
	f.host(name, func(h *Host) {
		for _, b := range binaries {
			h.binary(b, f.Target)
		}
		if h.Role == config.Worker {
			h.Kubeadm[nodeUnit(f.Target)] = hosts.Record{State: hosts.Exited, Claimed: true}
		}
	})
	f.node(name, func(n *Node) { n.Kubelet = f.Target })
}

// opened is a node in a window of ours.
func (f Facts) opened(name string) {
	f.node(name, func(n *Node) { n.Cordoned, n.Window = true, drain.Cordoned })
}

// lines renders findings, one line each.
func lines(found []Finding) []string {
	var out []string
	for _, x := range found {
		kind := "warn "
		if x.Block {
			kind = "block"
		}
		out = append(out, strings.Join([]string{kind, x.Check, x.Where, x.Text}, " | "))
	}
	return out
}
