package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

// scene is a cluster file and what is observed of its cluster.
type scene struct {
	c *config.Cluster
	f steps.Facts
}

var etcdOf = map[string]string{"v1.33.9": "3.5.24-0", "v1.34.4": "3.6.5-0", "v1.35.4": "3.6.6-0", "v1.36.1": "3.6.8-0", "v1.36.3": "3.6.8-0"}

// stands is a healthy cluster of one version, with artifacts for every rung to v1.36.3.
func stands(cps, workers int, at string) *scene {
	text := "name: prod\ntarget: v1.36.3\nartifacts: files\nssh: {user: ops}\nhosts:\n"
	for i := range cps + workers {
		role, name := config.ControlPlane, fmt.Sprintf("cp-%d", i+1)
		if i >= cps {
			role, name = config.Worker, fmt.Sprintf("w-%d", i+1-cps)
		}
		text += fmt.Sprintf("  - {name: %s, address: 10.0.0.%d, role: %s}\n", name, i+1, role)
	}
	c, err := config.Parse("prod.yaml", []byte(text), "/srv")
	if err != nil {
		panic(err)
	}
	f := steps.Facts{Hosts: map[string]steps.Host{}, Cluster: steps.ClusterFacts{
		Nodes: map[string]steps.Node{}, KubeadmVersion: at, ProxyImage: "registry.k8s.io/kube-proxy:" + at,
		CoreDNSImage: "registry.k8s.io/coredns/coredns:v1.13.1", CoreDNSReplicas: 2, Etcd: steps.EtcdFacts{DBSize: 64 << 20},
	}}
	for _, v := range []string{"v1.36.3", "v1.35.4", "v1.34.4"} {
		f.Shelf = append(f.Shelf, shelved(v))
	}
	for i, h := range c.Hosts {
		f.Hosts[h.Name] = hostAt(h, at)
		f.Cluster.Nodes[h.Name] = steps.Node{Name: h.Name, Kubelet: at, Ready: true, Address: fmt.Sprintf("10.0.0.%d", i+1)}
	}
	return &scene{c, f}
}

func hostAt(h config.Host, at string) steps.Host {
	seen := steps.Host{
		Name: h.Name, Role: h.Role, NodeName: h.Name, Arch: "amd64", Binaries: map[string]steps.Binary{},
		System: hosts.Facts{At: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Init: hosts.Init{Name: "systemd", SystemdRun: true},
			Units: map[string]hosts.SystemUnit{"kubelet.service": {Files: map[string]hosts.File{"/var/lib/kubelet/kubeadm-flags.env": {
				Text: `KUBELET_KUBEADM_ARGS="--pod-infra-container-image=registry.k8s.io/pause:3.10"`,
			}}}}},
		Free: []steps.Disk{{Path: "/var/lib", Mount: "/", Free: 100 << 30}},
	}
	for _, name := range []string{"kubeadm", "kubelet", "kubectl", "crictl"} {
		seen.Binaries[name] = steps.Binary{Path: "/usr/bin/" + name, Version: at}
	}
	if h.Role == config.ControlPlane {
		seen.APIVersion, seen.Manifests = at, manifestsOf(at)
	}
	return seen
}

func manifestsOf(at string) map[string]steps.Manifest {
	m := map[string]steps.Manifest{"etcd": {Image: "registry.k8s.io/etcd:" + etcdOf[at]}}
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		m[component] = steps.Manifest{Image: "registry.k8s.io/" + component + ":" + at}
	}
	return m
}

// shelved are whole artifacts of a version, with the sizes of real ones.
func shelved(v string) steps.Artifacts {
	a := steps.Artifacts{Version: v}
	add := func(name string, size int64, images ...string) {
		a.Files = append(a.Files, steps.Artifact{Arch: "amd64", Name: name, SHA256: strings.Repeat("a", 64), Size: size << 20, Images: images})
	}
	add("kubeadm", 70)
	add("kubelet", 58)
	add("kubectl", 57)
	add("crictl", 40)
	for image, size := range map[string]int64{"kube-apiserver": 95, "kube-controller-manager": 86, "kube-scheduler": 66, "kube-proxy": 100} {
		add(image+".tar", size, "registry.k8s.io/"+image+":"+v)
	}
	add("etcd.tar", 60, "registry.k8s.io/etcd:"+etcdOf[v])
	add("coredns.tar", 71, "registry.k8s.io/coredns/coredns:v1.14.0")
	add("pause.tar", 1, "registry.k8s.io/pause:3.10.1")
	return a
}

// host changes what is observed of one.
func (s *scene) host(name string, change func(*steps.Host)) {
	h := s.f.Hosts[name]
	h.Binaries, h.Manifests = maps.Clone(h.Binaries), maps.Clone(h.Manifests)
	change(&h)
	s.f.Hosts[name] = h
}

// consents are pods of a node that go because the file says so.
func (s *scene) consents(node string, pods ...drain.Refusal) {
	if s.f.Cluster.Drains == nil {
		s.f.Cluster.Drains = map[string]steps.Drain{}
	}
	s.f.Cluster.Drains[node] = steps.Drain{Consented: pods}
}

func (s *scene) node(name string, change func(*steps.Node)) {
	n := s.f.Cluster.Nodes[name]
	change(&n)
	s.f.Cluster.Nodes[name] = n
}

// moved is a control plane whose static pods are of a version, by the kubeadm of it.
func (s *scene) moved(name, to string) {
	s.host(name, func(h *steps.Host) {
		h.APIVersion, h.Manifests = to, manifestsOf(to)
		h.Binaries["kubeadm"] = steps.Binary{Path: "/usr/bin/kubeadm", Version: to}
	})
}

// arrived is a host whose kubelet is of a version.
func (s *scene) arrived(name, to string) {
	s.host(name, func(h *steps.Host) {
		for _, b := range []string{"kubeadm", "kubelet", "kubectl", "crictl"} {
			h.Binaries[b] = steps.Binary{Path: "/usr/bin/" + b, Version: to}
		}
	})
	s.node(name, func(n *steps.Node) { n.Kubelet = to })
}

var scenes = []struct {
	name string
	make func() *scene
}{
	{"one-node", func() *scene { return stands(1, 0, "v1.35.4") }},
	{"one-and-two", func() *scene { return stands(1, 2, "v1.35.4") }},
	{"three-and-three", func() *scene {
		s := stands(3, 3, "v1.35.4")
		s.c.Workers.Batch = 2
		return s
	}},
	{"patch", func() *scene { return stands(1, 1, "v1.36.1") }},
	{"external-etcd", func() *scene {
		s := stands(1, 1, "v1.35.4")
		s.f.Cluster.ExternalEtcd = true
		s.host("cp-1", func(h *steps.Host) { delete(h.Manifests, "etcd") })
		return s
	}},
	{"cut-off-between-control-planes", func() *scene { // on the way from 1.34, in the first rung
		s := stands(3, 1, "v1.34.4")
		s.moved("cp-1", "v1.35.4")
		s.f.Cluster.KubeadmVersion = "v1.35.4"
		return s
	}},
	{"cut-off-among-kubelets", func() *scene { // of the first rung: one has moved, one is in hand, one waits
		s := stands(1, 3, "v1.34.4")
		s.moved("cp-1", "v1.35.4")
		s.f.Cluster.KubeadmVersion = "v1.35.4"
		s.arrived("cp-1", "v1.35.4")
		s.arrived("w-1", "v1.35.4")
		s.node("w-2", func(n *steps.Node) { n.Cordoned, n.Window = true, drain.Cordoned })
		return s
	}},
	{"control-plane-done", func() *scene {
		s := stands(1, 2, "v1.35.4")
		s.moved("cp-1", "v1.36.3")
		s.f.Cluster.KubeadmVersion = "v1.36.3"
		s.arrived("cp-1", "v1.36.3")
		return s
	}},
	{"control-plane-done-workers-two-behind", func() *scene {
		s := stands(1, 1, "v1.34.4")
		s.moved("cp-1", "v1.36.3")
		s.f.Cluster.KubeadmVersion = "v1.36.3"
		s.arrived("cp-1", "v1.36.3")
		return s
	}},
	{"cordoned-by-somebody-else", func() *scene {
		s := stands(1, 1, "v1.35.4")
		s.node("w-1", func(n *steps.Node) { n.Cordoned = true })
		return s
	}},
	{"node-down", func() *scene {
		s := stands(1, 2, "v1.35.4")
		s.f.Hosts["w-2"] = steps.Host{Name: "w-2", Role: config.Worker, Address: "10.0.0.3", Err: hosts.ErrUnreachable}
		s.node("w-2", func(n *steps.Node) {
			n.Ready, n.NotReady = false, "NodeStatusUnknown: Kubelet stopped posting node status."
		})
		return s
	}},
	{"three-minors-each-rung", func() *scene { return stands(1, 1, "v1.33.9") }},
	{"three-minors-once", func() *scene {
		s := stands(1, 1, "v1.33.9")
		s.c.Workers.Climb = config.Once
		s.consents("w-1", drain.Refusal{Pod: "default/bare", Consent: "Unmanaged"}, drain.Refusal{Pod: "default/store-0", Consent: "LocalData"})
		return s
	}},
	{"two-minors-and-nothing-between", func() *scene {
		s := stands(1, 0, "v1.34.4")
		s.f.Shelf = s.f.Shelf[:1]
		return s
	}},
	{"finished", func() *scene { return stands(3, 3, "v1.36.3") }},
}

// What the plan of each cluster says, findings first. Where a check says no, the command ends before the plan; here it
// is printed all the same, to be seen.
func TestPlanScenes(t *testing.T) {
	known := map[string]bool{}
	for _, tt := range scenes {
		known[tt.name+".txt"] = true
		t.Run(tt.name, func(t *testing.T) {
			s := tt.make()
			s.f = steps.Aim(s.c, s.f)
			var out strings.Builder
			found, climb := steps.Check(s.c, s.f), steps.Climb(s.c, s.f, nil)
			writeFindings(&out, found)
			if !steps.Blocked(found) || len(climb) > 0 {
				newPlanDocument(s.c, s.f, climb).write(&out, s.c.Name)
			}
			golden(t, filepath.Join("plan", tt.name+".txt"), out.String())
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "plan"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !known[file.Name()] {
			t.Errorf("testdata/plan/%s belongs to no scene", file.Name())
		}
	}
}
