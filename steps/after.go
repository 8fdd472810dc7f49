package steps

import (
	"maps"
	"path"
	"strings"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// after gives the facts as they will be when a plan that was made from them is done. It is pure, and only as good as the
// effects below: when a rung begins, its plan is made anew from what is observed then.
func after(c *config.Cluster, f Facts, p plan) Facts {
	next := f.copied()
	for _, st := range p {
		for _, l := range st.Lanes {
			for _, s := range l.Steps(f) {
				if effect := effects[s.Name]; effect != nil {
					effect(c, &next, l.Target)
				}
			}
		}
	}
	return next
}

// effects is what each step leaves behind. What is not listed changes nothing that a plan is made from.
var effects = map[string]func(c *config.Cluster, f *Facts, host string){
	"stage-files":           filesStaged,
	"import-images":         imagesImported,
	"install-kubeadm":       func(_ *config.Cluster, f *Facts, host string) { f.installed(host, "kubeadm") },
	"install-kubelet":       func(_ *config.Cluster, f *Facts, host string) { f.installed(host, "kubelet", "kubectl", "crictl") },
	"upgrade-control-plane": controlPlaneMoved,
	"upgrade-node":          func(_ *config.Cluster, f *Facts, host string) { f.ended(host, nodeUnit(f.Target)) },
	"carry-changes":         changesCarried,
	"cordon":                nodeCordoned,
	"restart-kubelet":       kubeletRestarted,
	"uncordon":              nodeReleased,
	"remove-staged":         stagedRemoved,
	"await-add-ons":         func(_ *config.Cluster, f *Facts, _ string) { f.Cluster.Rollout = "" },
}

// copied gives facts whose hosts and nodes can be changed without changing those of f.
func (f Facts) copied() Facts {
	all := make(map[string]Host, len(f.Hosts))
	for name, h := range f.Hosts {
		h.Binaries, h.Staged, h.Images = cloned(h.Binaries), cloned(h.Staged), cloned(h.Images)
		h.Kubeadm, h.Manifests = cloned(h.Kubeadm), cloned(h.Manifests)
		all[name] = h
	}
	f.Hosts, f.Cluster.Nodes = all, maps.Clone(f.Cluster.Nodes)
	return f
}

// cloned gives a map that can be written to, whatever it was.
func cloned[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

func filesStaged(_ *config.Cluster, f *Facts, host string) {
	h := f.Hosts[host]
	for _, a := range staging(*f, h) {
		if a.Images == nil {
			h.Staged[a.stagedAt(f.Target)] = true
		}
	}
}

// imagesImported leaves images behind that nothing removes but the kubelet's own collection.
func imagesImported(_ *config.Cluster, f *Facts, host string) {
	h := f.Hosts[host]
	_, size := missingImages(*f, h)
	for _, a := range staging(*f, h) {
		for _, image := range a.Images {
			h.Images[image] = true
		}
	}
	f.filled(host, "/var/lib/containerd", 2*size)
}

// installed replaces what is both there and to be had, as the step does. The old ones are kept.
func (f *Facts) installed(host string, names ...string) {
	h := f.Hosts[host]
	for _, name := range names {
		b, found := h.Binaries[name]
		art, have := f.Artifacts.Binary(h.Arch, name)
		if !found || !have {
			continue
		}
		b.Version = f.Target
		h.Binaries[name] = b
		f.filled(host, "/var/lib", art.Size)
	}
}

// filled takes room from the file system that holds a path.
func (f *Facts) filled(host, dir string, size int64) {
	h := f.Hosts[host]
	mount := ""
	for _, d := range h.Free {
		if d.Path == dir {
			mount = d.Mount
		}
	}
	if mount == "" {
		return // it was not asked for
	}
	disks := make([]Disk, 0, len(h.Free))
	for _, d := range h.Free {
		if d.Mount == mount {
			d.Free -= size
		}
		disks = append(disks, d)
	}
	h.Free = disks
	f.Hosts[host] = h
}

// ended is a run of kubeadm that came to its end.
func (f *Facts) ended(host, unit string) {
	f.Hosts[host].Kubeadm[unit] = hosts.Record{State: hosts.Exited, Claimed: true}
}

// controlPlaneMoved is a host where kubeadm has come to its end. With the last of them it moves the add-ons.
func controlPlaneMoved(c *config.Cluster, f *Facts, host string) {
	first, unit := applyHost(c, *f), nodeUnit(f.Target)
	if host == first {
		unit = applyUnit(f.Target)
	}
	h := f.Hosts[host]
	for _, component := range controlPlaneComponents {
		m, want := h.Manifests[component], f.Target
		if component == "etcd" {
			want = wantedEtcd(*f, h.Arch)
		}
		if needsManifest(*f, h, component) != "" && m.Image != "" {
			m.Image = retagged(m.Image, want)
			h.Manifests[component] = m
		}
	}
	h.APIVersion = f.Target
	f.Hosts[host] = h
	f.ended(host, unit)
	f.filled(host, "/etc/kubernetes", f.Cluster.Etcd.DBSize)
	if host == first {
		f.Cluster.KubeadmVersion = f.Target
	}
	f.etcdMoved(c)
	f.addOnsMoved(c)
}

// retagged gives an image reference another tag; a digest would belong to the old one.
func retagged(image, tag string) string {
	image, _, _ = strings.Cut(image, "@")
	return strings.TrimSuffix(image, ":"+tagOf(image)) + ":" + tag
}

// etcdMoved tells the oldest member anew, where that was known.
func (f *Facts) etcdMoved(c *config.Cluster) {
	if f.Cluster.Etcd.Oldest == "" {
		return
	}
	oldest := ""
	for _, h := range controlPlanes(c) {
		// The tag has a number of the image's build behind it: "3.6.8-0".
		v, _, _ := strings.Cut(tagOf(f.Hosts[h.Name].Manifests["etcd"].Image), "-")
		if v != "" && (oldest == "" || older(v, oldest)) {
			oldest = v
		}
	}
	if oldest != "" {
		f.Cluster.Etcd.Oldest = oldest
	}
}

// addOnsMoved is what kubeadm does on the last control plane, and never before.
func (f *Facts) addOnsMoved(c *config.Cluster) {
	arch := ""
	for _, h := range controlPlanes(c) {
		if f.Hosts[h.Name].APIVersion != f.Target {
			return
		}
		arch = f.Hosts[h.Name].Arch
	}
	if f.Cluster.ProxyImage != "" {
		f.Cluster.ProxyImage = retagged(f.Cluster.ProxyImage, f.Target)
	}
	if tag := f.Artifacts.Image(arch, "coredns"); f.Cluster.CoreDNSImage != "" && f.Cluster.DNSTag == "" && tag != "" {
		f.Cluster.CoreDNSImage = retagged(f.Cluster.CoreDNSImage, tag)
	}
}

// changesCarried leaves the files as they should be. Nothing that is planned reads the flags that stay.
func changesCarried(_ *config.Cluster, f *Facts, host string) {
	h := f.Hosts[host]
	unit := h.System.Units["kubelet.service"]
	for _, c := range toCarry(*f, host) {
		flags := unit.Files[kubeadmFlags]
		flags.Text = withoutFlag(flags.Text, c.flag)
		unit.Files = cloned(unit.Files)
		unit.Files[kubeadmFlags] = flags
		h.Instance = h.Instance || c.to == instanceConfig
	}
	h.System.Units = cloned(h.System.Units)
	h.System.Units["kubelet.service"] = unit
	f.Hosts[host] = h
}

// changeNode changes what is known of a host's node.
func (f *Facts) changeNode(host string, change func(*Node)) {
	name := f.NodeName(host)
	n := f.Cluster.Nodes[name]
	change(&n)
	f.Cluster.Nodes[name] = n
}

func nodeCordoned(_ *config.Cluster, f *Facts, host string) {
	f.changeNode(host, func(n *Node) {
		if n.Window == "" {
			n.Window = drain.Cordoned
			if n.Cordoned {
				n.Window = drain.FoundCordoned
			}
		}
		n.Cordoned = true
	})
}

func nodeReleased(_ *config.Cluster, f *Facts, host string) {
	f.changeNode(host, func(n *Node) { n.Cordoned, n.Window = n.Window == drain.FoundCordoned, "" })
}

func kubeletRestarted(_ *config.Cluster, f *Facts, host string) {
	f.changeNode(host, func(n *Node) { n.Kubelet = f.Hosts[host].Binaries["kubelet"].Version })
}

func stagedRemoved(_ *config.Cluster, f *Facts, host string) {
	h := f.Hosts[host]
	for file := range h.Staged {
		if strings.HasPrefix(file, path.Clean(stageDir)+"/") {
			delete(h.Staged, file)
		}
	}
}
