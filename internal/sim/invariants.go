package sim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kuberung/kuberung/drain"
)

// The invariants, by name. Those of states are looked at after every change, the others when something is done.
const (
	outOfService    = "at most the allowed number of nodes is out of service"
	oneControlPlane = "never two control planes at once"
	etcdQuorum      = "etcd never goes below quorum"
	snapshotFirst   = "no control plane moves without a verified snapshot"
	kubeletSkew     = "no kubelet is newer than the oldest API server"
	foreignCordon   = "a node cordoned by somebody else stays cordoned"
	ownCordon       = "a node cordoned by us is released or named"
	asPlanned       = "nothing is done that was not planned"
	drainedFirst    = "no kubelet changes its version under pods"
	imagesFirst     = "no image is wanted that is not there"
	converges       = "a rerun ends where an undisturbed run does"
	knownScripts    = "known"
)

// Invariants lists the names of all.
func Invariants() []string {
	return []string{
		outOfService, oneControlPlane, etcdQuorum, snapshotFirst, kubeletSkew, foreignCordon, ownCordon, asPlanned, drainedFirst,
		imagesFirst, converges,
	}
}

// changed is called after every change: what must hold in every state is looked at.
func (w *World) changed(what string) {
	w.note("%s", what)
	w.lookAtWindows()
	w.lookAtControlPlanes()
	w.lookAtKubelets()
	w.lookAtForeign()
}

// window is the annotation by which kuberung notes that it took a node out of service.
func (w *World) window(h *host) string {
	if n := find[*corev1.Node](w.store, "nodes", "", h.node); n != nil {
		return n.Annotations[drain.WindowAnnotation]
	}
	return ""
}

func (w *World) lookAtWindows() {
	var cps, workers []string
	for _, h := range w.hosts {
		switch {
		case w.window(h) == "":
		case h.control:
			cps = append(cps, h.name)
		default:
			workers = append(workers, h.name)
		}
	}
	if len(workers) > w.Shape.Batch || len(cps) > 1 || len(cps)+len(workers) > max(1, w.Shape.Batch) {
		w.breaks(outOfService, "%s", strings.Join(append(cps, workers...), ", "))
	}
}

// lookAtControlPlanes counts those that are in hand: kubeadm is at work there, or they are out of service.
func (w *World) lookAtControlPlanes() {
	var found []string
	for _, h := range w.controlPlanes() {
		inHand := w.window(h) != ""
		for _, u := range h.units {
			inHand = inHand || u.live
		}
		if inHand {
			found = append(found, h.name)
		}
	}
	if len(found) > 1 {
		w.breaks(oneControlPlane, "%s", strings.Join(found, ", "))
	}
}

func (w *World) lookAtKubelets() {
	for _, cp := range w.controlPlanes() {
		api := cp.versionOf("kube-apiserver")
		for _, h := range w.hosts {
			if older(api, h.kubelet.version) {
				w.breaks(kubeletSkew, "kubelet %s of %s, API server %s of %s", h.kubelet.version, h.name, api, cp.name)
			}
		}
	}
}

func older(a, b string) bool {
	x, errA := version.ParseSemantic(a)
	y, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil && x.LessThan(y)
}

func (w *World) lookAtForeign() {
	for _, name := range w.Shape.Foreign {
		h := w.host(name)
		if n := find[*corev1.Node](w.store, "nodes", "", h.node); n != nil && !n.Spec.Unschedulable {
			w.breaks(foreignCordon, "%s takes pods", name)
		}
	}
}

// allows says which steps of a lane may do what.
var allows = map[string][]string{
	"stage": {"stage-files"}, "import": {"import-images"}, "install kubeadm": {"install-kubeadm"},
	"install kubelet": {"install-kubelet"}, "install kubectl": {"install-kubelet"}, "install crictl": {"install-kubelet"},
	"kubeadm apply": {"upgrade-control-plane"}, "kubeadm node": {"upgrade-control-plane", "upgrade-node"},
	"restart kubelet": {"restart-kubelet"}, "evict": {"drain"}, "remove staged": {"remove-staged"},
	"cordon": {"cordon"}, "uncordon": {"uncordon", "drain"},
}

// performed notes that something was done to a host: by a step that was in the plan and has begun. A script may go on for
// a moment when its step has ended.
func (w *World) performed(what string, h *host, r *Run) {
	if r == nil || h == nil {
		return
	}
	for _, step := range allows[what] {
		at := h.name + " " + step
		if does, planned := r.planned[at]; planned && r.begun[at] && (what != "kubeadm apply" || strings.Contains(does, "apply")) {
			return
		}
	}
	w.breaks(asPlanned, "%s on %s", what, h.name)
}

// nodeChanged notes cordons.
func (w *World) nodeChanged(before, now *corev1.Node) {
	if before.Spec.Unschedulable == now.Spec.Unschedulable {
		return
	}
	what := "cordon"
	if before.Spec.Unschedulable {
		what = "uncordon"
	}
	w.performed(what, w.hostOfNode(now.Name), w.run)
}

// mayLose holds that etcd can do without a host's member now. A member that went since the operator was told, in this
// very lane, that it is well is nobody's fault.
func (w *World) mayLose(h *host, r *Run, doing string) {
	if len(w.etcd.members) == 1 || w.etcd.of(h) == nil || r == nil {
		return
	}
	for _, m := range w.etcd.members {
		if m.h != h && !m.up() && (m.told.IsZero() || m.told.Before(r.lanes[h.name])) {
			w.breaks(etcdQuorum, "%s %s, and the member of %s is down", h.name, doing, m.h.name)
		}
	}
}

// restarting is called before a kubelet is started anew.
func (w *World) restarting(h *host, r *Run) {
	is, will := h.kubelet.version, h.installed("kubelet")
	if minor(is) != minor(will) {
		w.mayLose(h, r, "restarts its static pods")
	}
	if is == will {
		return
	}
	for _, p := range list[*corev1.Pod](w.store, "pods") {
		owner := metav1.GetControllerOf(p)
		if p.Spec.NodeName == h.node && p.DeletionTimestamp == nil && owner != nil && owner.Kind != "DaemonSet" {
			w.breaks(drainedFirst, "%s has pod %s when its kubelet %s becomes %s", h.name, p.Name, is, will)
		}
	}
}

// movesControlPlane is called before kubeadm begins on a host.
func (w *World) movesControlPlane(h *host, r *Run) {
	if !h.control {
		return
	}
	w.mayLose(h, r, "is moved by kubeadm")
	if r != nil && !w.snapshotSince(r.began) {
		w.breaks(snapshotFirst, "%s is moved by kubeadm", h.name)
	}
}

// moves is called when a static pod is about to be swapped.
func (w *World) moves(h *host, wanted string) {
	if !h.images[wanted] {
		w.breaks(imagesFirst, "%s has no %s", h.name, wanted)
	}
}

// rolls is called when kubeadm moves an add-on, whose pods may land anywhere.
func (w *World) rolls(image string) {
	for _, h := range w.hosts {
		w.moves(h, image)
	}
}

// arrives is called when a rung has come to its end.
func (w *World) arrives() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		if w.window(h) != "" {
			w.breaks(ownCordon, "%s after a whole rung", h.name)
		}
	}
}

// ends is called at the end of a run, with what it said.
func (w *World) ends(r *Run) {
	for _, h := range w.hosts {
		if w.window(h) == "" {
			continue
		}
		named := r.Err != nil && len(r.Left) == 0 // the machine is gone, or the cluster could not be asked
		for _, line := range r.Left {
			named = named || strings.HasPrefix(line, h.name) && strings.Contains(line, "cordoned by")
			named = named || strings.Contains(line, "could not be")
		}
		if r.Err == nil || !named {
			w.breaks(ownCordon, "%s after %v", h.name, r.Err)
		}
	}
}
