package sim

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/drain"
)

// State describes where the cluster stands, a line for each thing that an upgrade may change: versions, manifests,
// configuration, cordons, taints, memberships, units. It holds nothing that two good runs may differ in.
func (w *World) State() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, h := range w.hosts {
		for _, name := range programs {
			say("%s: %s %s is installed", h.name, name, h.installed(name))
		}
		say("%s: kubelet %s runs, configured %q", h.name, h.kubelet.version, h.read("/var/lib/kubelet/config.yaml"))
		say("%s: %d files are staged, locked: %v", h.name, len(h.below("/var/lib/kuberung/stage")), h.lock.id != "" && h.lockAge() <= h.lock.term)
		for _, component := range components {
			if h.control {
				say("%s: %s %s runs: %v, manifest %q", h.name, component, h.versionOf(component), h.runs(component), h.read(manifestFile(component)))
			}
		}
		for _, name := range sortedKeys(h.units) {
			if !strings.HasSuffix(name, w.Shape.Target) {
				continue // of an earlier rung
			}
			say("%s: unit %s %s, status %d", h.name, strings.NewReplacer("apply", "run", "node", "run").Replace(name), h.units[name].state(), h.units[name].code)
		}
	}
	for _, n := range list[*corev1.Node](w.store, "nodes") {
		say("node %s: kubelet %s, ready %v, cordoned %v, window %q, %d taints", n.Name, n.Status.NodeInfo.KubeletVersion, nodeIsReady(n),
			n.Spec.Unschedulable, n.Annotations[drain.WindowAnnotation], len(n.Spec.Taints))
	}
	for _, m := range w.etcd.members {
		say("etcd member %s %s is up: %v", m.h.name, m.version(), m.up())
	}
	proxy := find[*appsv1.DaemonSet](w.store, "daemonsets", metav1.NamespaceSystem, "kube-proxy")
	dns := find[*appsv1.Deployment](w.store, "deployments", metav1.NamespaceSystem, "coredns")
	say("cluster: kubeadm-config %s, %s, %s", w.configured(), proxy.Spec.Template.Spec.Containers[0].Image, dns.Spec.Template.Spec.Containers[0].Image)
	return lines
}

// WantState is what State is after an upgrade that nothing disturbed, but for units, of which each control plane has one
// of two names.
func (w *World) WantState() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := w.Shape.Target
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, h := range w.hosts {
		for _, name := range programs {
			say("%s: %s %s is installed", h.name, name, target)
		}
		say("%s: kubelet %s runs, configured %q", h.name, target, kubeletConfig(target))
		say("%s: 0 files are staged, locked: false", h.name)
		for _, component := range components {
			if h.control {
				say("%s: %s %s runs: true, manifest %q", h.name, component, tagOf(image(component, target)), manifest(h, component, target))
			}
		}
		say("%s: unit kubeadm-run-%s exited, status 0", h.name, target)
	}
	for _, h := range w.sortedByNode() {
		taints := 0
		if h.control {
			taints = 1
		}
		say("node %s: kubelet %s, ready true, cordoned %v, window %q, %d taints", h.node, target, slices.Contains(w.Shape.Foreign, h.name), "", taints)
	}
	for _, m := range w.etcd.members {
		version, _, _ := strings.Cut(releases[target].etcd, "-")
		say("etcd member %s %s is up: true", m.h.name, version)
	}
	say("cluster: kubeadm-config %s, %skube-proxy:%s, %scoredns/coredns:%s", target, registry, target, registry, releases[target].coreDNS)
	return lines
}

func (w *World) sortedByNode() []*host {
	all := slices.Clone(w.hosts)
	slices.SortFunc(all, func(a, b *host) int { return strings.Compare(a.node, b.node) })
	return all
}

// Differences lists what State has and want has not, and the other way round.
func Differences(state, want []string) []string {
	var found []string
	for _, line := range state {
		if !slices.Contains(want, line) {
			found = append(found, "is: "+line)
		}
	}
	for _, line := range want {
		if !slices.Contains(state, line) {
			found = append(found, "want: "+line)
		}
	}
	return found
}
