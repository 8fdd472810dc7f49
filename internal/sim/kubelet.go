package sim

import (
	"crypto/sha256"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubelet is the process on a host; its zero value is none.
type kubelet struct {
	version  string // empty: it does not run
	started  time.Time
	since    time.Time // the same by the host's clock, which is what systemd tells
	reported bool      // its Node says that it is there
	renewed  time.Time // the heartbeat, by the true clock
}

// staticPod is one that runs on a host.
type staticPod struct {
	uid, text string
	ready     bool
	due       time.Time // when it will be ready, or gone
	stopping  bool
}

// The kubelet takes its time, as on a real host: https://kubernetes.io/docs/reference/node/kubelet-files/ tells what it
// reads, and a new minor of it makes all its static pods anew, some time after its Node says Ready.
const (
	kubeletReports = 2 * time.Second
	kubeletRemakes = 4 * time.Second
	heartbeat      = 10 * time.Second
)

// startKubelet starts what is installed, in the place of what runs.
func (h *host) startKubelet() {
	h.kubelet = kubelet{version: h.installed("kubelet"), started: time.Now(), since: h.now()}
	h.w.note("%s: kubelet %s starts", h.name, h.kubelet.version)
}

// staticUID is the UID that the running kubelet gives the static pod of a manifest: it depends on the text and on the
// kubelet's minor.
func (h *host) staticUID(component string) string {
	sum := sha256.Sum256([]byte(h.node + "\n" + h.read(manifestFile(component)) + "\n" + minor(h.kubelet.version)))
	return fmt.Sprintf("%x", sum[:16])
}

// tickKubelet is a second of the kubelet's life.
func (h *host) tickKubelet() {
	if !h.up || h.kubelet.version == "" {
		return
	}
	h.tickStatic()
	if !h.apiForKubelet() {
		return
	}
	h.report()
	h.tickPods()
}

// apiForKubelet: the kubelet of a control plane talks to its own API server, others to any.
func (h *host) apiForKubelet() bool {
	if h.control {
		return h.w.apiWorks(h)
	}
	return h.w.anyAPI() != nil
}

func (h *host) tickStatic() {
	if time.Since(h.kubelet.started) < h.w.pace(kubeletRemakes) {
		return
	}
	for _, component := range components {
		h.tickComponent(component)
	}
}

func (h *host) tickComponent(component string) {
	text, pod := h.read(manifestFile(component)), h.static[component]
	switch {
	case pod == nil && text == "":
	case pod == nil:
		if h.images[imageIn(text)] { // else it cannot be pulled: nothing here has a registry
			h.static[component] = &staticPod{uid: h.staticUID(component), text: text, due: time.Now().Add(h.w.between(2*time.Second, 6*time.Second))}
		}
	case pod.stopping:
		if !time.Now().Before(pod.due) {
			delete(h.static, component)
		}
	case pod.uid != h.staticUID(component):
		h.stopStatic(component, pod)
	case !pod.ready && !time.Now().Before(pod.due):
		pod.ready = true
		h.w.etcd.elect()
		h.w.changed(h.name + ": " + component + " " + tagOf(imageIn(pod.text)) + " runs")
	}
}

func (h *host) stopStatic(component string, pod *staticPod) {
	pod.stopping, pod.ready, pod.due = true, false, time.Now().Add(h.w.between(time.Second, 3*time.Second))
	h.cutComponent(component)
	h.w.etcd.elect()
	h.w.changed(h.name + ": " + component + " stops")
}

// runs reports whether a component's process is there and works, but for what it depends on.
func (h *host) runs(component string) bool {
	pod := h.static[component]
	return h.up && pod != nil && pod.ready
}

// versionOf is that of a component that runs.
func (h *host) versionOf(component string) string {
	if pod := h.static[component]; pod != nil {
		return tagOf(imageIn(pod.text))
	}
	return ""
}

// report renews the heartbeat, and the Node.
func (h *host) report() {
	k := &h.kubelet
	if time.Since(k.started) < h.w.pace(kubeletReports) || k.reported && time.Since(k.renewed) < h.w.pace(heartbeat) {
		return
	}
	n := find[*corev1.Node](h.w.store, "nodes", "", h.node)
	if n == nil {
		return
	}
	k.reported, k.renewed = true, time.Now()
	n.Status.NodeInfo.KubeletVersion = k.version
	setReady(n, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	h.w.store.put("nodes", n)
	h.w.renew(corev1.NamespaceNodeLease, h.node, h.node, h.now())
}

func setReady(n *corev1.Node, status corev1.ConditionStatus, reason, message string) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: reason, Message: message, LastHeartbeatTime: metav1.Now()}}
}

// tickPods starts and ends the node's pods.
func (h *host) tickPods() {
	for _, p := range list[*corev1.Pod](h.w.store, "pods") {
		if p.Spec.NodeName != h.node || p.Annotations[mirror] != "" {
			continue
		}
		switch {
		case p.DeletionTimestamp != nil:
			if time.Now().After(p.DeletionTimestamp.Add(h.w.pace(podStops) - podGrace)) {
				h.w.store.delete("pods", p)
			}
		case !podIsReady(p) && h.images[p.Spec.Containers[0].Image] && time.Since(p.CreationTimestamp.Time) > h.w.pace(podStarts):
			markReady(p, true)
			h.w.store.put("pods", p)
		}
	}
}

const (
	podStarts = 3 * time.Second
	podStops  = 2 * time.Second
	podGrace  = 30 * time.Second
	mirror    = "kubernetes.io/config.mirror"
)
