package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kubeadm is one run of `kubeadm upgrade` on a host. It does what the real one does, in its order:
// https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-upgrade/
type kubeadm struct {
	h       *host
	u       *unit
	boot    int
	version string // its own
	target  string // where it takes the host
	skip    []string
}

// upgradeFile is what the simulation reads of kubeadm's UpgradeConfiguration.
type upgradeFile struct {
	Apply, Node *struct {
		KubernetesVersion string   `json:"kubernetesVersion"`
		SkipPhases        []string `json:"skipPhases"`
	}
}

// startKubeadm lets the command of a unit run, whoever goes away meanwhile.
func (h *host) startKubeadm(name string, u *unit, by *Run) {
	k := &kubeadm{h: h, u: u, boot: h.boot, version: h.installed("kubeadm")}
	line := strings.Join(u.argv, " ")
	h.w.performed(verbOf(line), h, by)
	h.w.movesControlPlane(h, by)
	h.w.changed(h.name + ": unit " + name + " starts: " + line)
	h.w.loops.Go(func() {
		code := k.run(line)
		h.w.mu.Lock()
		defer h.w.mu.Unlock()
		if k.gone() {
			return
		}
		u.live, u.exited, u.code, u.ended = false, true, code, h.now().Unix()
		h.w.changed(fmt.Sprintf("%s: unit %s ends with %d", h.name, name, code))
	})
}

func verbOf(line string) string {
	if strings.Contains(line, " apply ") {
		return "kubeadm apply"
	}
	return "kubeadm node"
}

// gone: the host went down since, and this process with it. The caller holds the lock.
func (k *kubeadm) gone() bool { return k.h.boot != k.boot || k.h.w.ctx.Err() != nil }

// step waits, then does something under the lock. It is false when the process was ended.
func (k *kubeadm) step(wait time.Duration, do func()) bool {
	if !pause(k.h.w.ctx, k.h.w.pace(wait)) {
		return false
	}
	k.h.w.mu.Lock()
	defer k.h.w.mu.Unlock()
	if k.gone() {
		return false
	}
	do()
	return true
}

func (k *kubeadm) say(format string, args ...any) { fmt.Fprintf(&k.u.output, format+"\n", args...) }

// wait asks every second until something holds, under the lock; false after the limit, or when the process was ended.
func (k *kubeadm) wait(limit time.Duration, holds func() bool) bool {
	until := time.Now().Add(limit)
	for good := false; time.Now().Before(until); {
		if !k.step(time.Second, func() { good = holds() }) {
			return false
		}
		if good {
			return true
		}
	}
	return false
}

func (k *kubeadm) run(line string) int {
	apply := strings.Contains(line, " apply ")
	var failed string
	if !k.step(2*time.Second, func() { failed = k.begin(line, apply) }) || failed != "" {
		return k.fail(failed)
	}
	if k.h.control && k.h.read(manifestFile("kube-apiserver")) != "" {
		for _, component := range components {
			if why := k.move(component); why != "" {
				return k.fail(why)
			}
		}
	}
	if apply && !k.wait(time.Minute, k.uploadConfig) {
		return k.fail("error execution phase upload-config: the API server does not answer")
	}
	if !k.wait(time.Minute, k.writeKubeletConfig) {
		return k.fail("error execution phase kubelet-config: the API server does not answer")
	}
	if k.h.control && !k.wait(time.Minute, k.addOns) {
		return k.fail("error execution phase addon: the API server does not answer")
	}
	k.step(0, func() { k.say("[upgrade] SUCCESS! %s is at %s", k.h.node, k.target) })
	return 0
}

func (k *kubeadm) fail(why string) int {
	k.step(0, func() { k.say("%s", why) })
	return 1
}

// begin reads the configuration and does the checks.
func (k *kubeadm) begin(line string, apply bool) string {
	words := strings.Fields(line)
	var c upgradeFile
	if err := yaml.Unmarshal([]byte(k.h.read(words[len(words)-1])), &c); err != nil {
		return err.Error()
	}
	if k.h.w.faults.kubeadm(k.h.w, k.h) {
		return "[ERROR CoreDNSMigration]: a check failed"
	}
	if k.h.w.anyAPI() == nil {
		return "error: the API server does not answer"
	}
	k.say("[preflight] kubeadm %s", k.version)
	k.target = k.h.w.configured()
	run := c.Node
	if apply {
		run, k.target = c.Apply, c.Apply.KubernetesVersion
		for _, h := range k.h.w.controlPlanes() {
			if n := find[*corev1.Node](k.h.w.store, "nodes", "", h.node); !nodeIsReady(n) {
				return "[ERROR ControlPlaneNodesReady]: " + h.node + " is not Ready"
			}
		}
		if minor(k.version) != minor(k.target) {
			return "kubeadm " + k.version + " cannot move a cluster to " + k.target
		}
	}
	k.skip = run.SkipPhases
	return ""
}

// configured is the version in kubeadm-config.
func (w *World) configured() string {
	cm := find[*corev1.ConfigMap](w.store, "configmaps", metav1.NamespaceSystem, "kubeadm-config")
	_, rest, _ := strings.Cut(cm.Data["ClusterConfiguration"], "kubernetesVersion: ")
	version, _, _ := strings.Cut(rest, "\n")
	return version
}

// Where kubeadm keeps the manifests that it takes away, and those that it is about to put in place.
const (
	backups  = "/etc/kubernetes/tmp/kubeadm-backup-manifests-2000-01-01-00-00-00/"
	upgraded = "/etc/kubernetes/tmp/kubeadm-upgraded-manifests1234567890/"
)

// move swaps one static pod: the old manifest goes to a backup, the new one comes in its place, and a moment between the
// two there is none. Then the kubelet has to have it run.
func (k *kubeadm) move(component string) string {
	h, name := k.h, manifestFile(component)
	backup, fresh := backups+component+".yaml", upgraded+component+".yaml"
	want, same, failed := manifest(h, component, k.target), false, ""
	if component == "etcd" && tagOf(imageIn(h.read(name))) > releases[k.target].etcd {
		return ""
	}
	ended := "ended"
	if !k.step(time.Second, func() {
		if same = h.read(name) == want; same {
			return
		}
		if component == "etcd" && h.w.etcd.count() < len(h.w.etcd.members) && !h.w.etcd.quorum() {
			failed = "etcd cluster is not healthy"
			return
		}
		h.write(fresh, []byte(want), "0600")
		h.files[backup] = h.files[name]
		delete(h.files, name)
		h.w.moves(h, imageIn(want))
		h.w.changed(h.name + ": the manifest of " + component + " is moved away")
		h.w.faults.rename(h)
	}) {
		return ended
	}
	if same || failed != "" {
		return failed
	}
	if !k.step(100*time.Millisecond, func() {
		h.files[name] = h.files[fresh]
		delete(h.files, fresh)
		k.say("[upgrade/staticpods] Moved new manifest of %s into place", component)
		h.w.changed(h.name + ": the manifest of " + component + " is that of " + k.target)
	}) {
		return ended
	}
	if k.wait(5*time.Minute, func() bool {
		return h.static[component] != nil && h.static[component].text == want && h.runs(component)
	}) {
		return ""
	}
	k.step(0, func() {
		h.files[name] = h.files[backup]
		h.w.changed(h.name + ": the manifest of " + component + " is rolled back")
	})
	return "couldn't complete the static pod upgrade of " + component
}

func (k *kubeadm) uploadConfig() bool {
	if !k.h.w.apiWorks(k.h) {
		return false
	}
	k.h.w.setConfig(k.target)
	k.h.w.changed("kubeadm-config says " + k.target)
	return true
}

func (k *kubeadm) writeKubeletConfig() bool {
	if k.h.w.anyAPI() == nil {
		return false
	}
	cm := find[*corev1.ConfigMap](k.h.w.store, "configmaps", metav1.NamespaceSystem, "kubelet-config")
	k.h.write("/var/lib/kubelet/config.yaml", []byte(cm.Data["kubelet"]), "0644")
	k.h.w.changed(k.h.name + ": the kubelet's configuration is written")
	return true
}

// addOns moves kube-proxy and CoreDNS, but only once all API servers are the same.
func (k *kubeadm) addOns() bool {
	w := k.h.w
	if !w.apiWorks(k.h) {
		return false
	}
	for _, h := range w.controlPlanes() {
		if imageIn(h.read(manifestFile("kube-apiserver"))) != image("kube-apiserver", k.target) {
			k.say("[upgrade/addon] Skipping upgrade of addons because control plane instances have not been upgraded")
			return true
		}
	}
	if ds := find[*appsv1.DaemonSet](w.store, "daemonsets", metav1.NamespaceSystem, "kube-proxy"); !slices.Contains(k.skip, "addon/kube-proxy") && ds != nil {
		w.setImage(ds, &ds.Spec.Template, &ds.Generation, "daemonsets", registry+"kube-proxy:"+k.target)
	}
	if d := find[*appsv1.Deployment](w.store, "deployments", metav1.NamespaceSystem, "coredns"); !slices.Contains(k.skip, "addon/coredns") && d != nil {
		w.setImage(d, &d.Spec.Template, &d.Generation, "deployments", registry+"coredns/coredns:"+releases[k.target].coreDNS)
	}
	w.changed("the add-ons are those of " + k.target)
	return true
}

func (w *World) setImage(o object, t *corev1.PodTemplateSpec, generation *int64, resource, image string) {
	if t.Spec.Containers[0].Image == image {
		return
	}
	t.Spec.Containers[0].Image = image
	w.rolls(image)
	*generation++
	w.store.put(resource, o)
}
