package sim

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const domainName = "10.96.0.10" // of the cluster's DNS

// webImage is an application's; it is everywhere, as an image that was pulled long ago.
const webImage = "registry.example/web:1"

// populate puts into the API what kubeadm and a site have put there, and lets it settle.
func (w *World) populate() {
	version := w.Shape.Version
	for _, h := range w.hosts {
		h.images[webImage] = true
		w.store.put("nodes", w.newNode(h))
		h.kubelet.renewed = time.Now()
		w.renew(corev1.NamespaceNodeLease, h.node, h.node, h.now())
	}
	w.setConfig(version)
	system := metav1.NamespaceSystem
	w.addDaemonSet(system, "kube-proxy", registry+"kube-proxy:"+version)
	w.addDaemonSet(system, "network", webImage)
	w.addDeployment(system, "coredns", registry+"coredns/coredns:"+releases[version].coreDNS, 2, true)
	w.addService(system, "kube-dns", "coredns")
	w.addDeployment("default", "web", webImage, 2, false)
	w.addService("default", "web", "web")
	if w.Shape.Workers-len(w.Shape.Foreign) > w.Shape.Batch { // else the budget would keep a drain for ever
		w.store.put("poddisruptionbudgets", &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: atLeast(1), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		})
	}
	w.settle()
}

func (w *World) newNode(h *host) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: h.node, Labels: map[string]string{"kubernetes.io/hostname": h.node}},
		Spec:       corev1.NodeSpec{Unschedulable: slices.Contains(w.Shape.Foreign, h.name)},
		Status: corev1.NodeStatus{
			NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: w.Shape.Version, MachineID: machineID(h)},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: h.address}, {Type: corev1.NodeHostName, Address: h.node}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		},
	}
	if h.control {
		n.Labels["node-role.kubernetes.io/control-plane"] = ""
		n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	}
	setReady(n, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	return n
}

// setConfig is what kubeadm uploads.
func (w *World) setConfig(version string) {
	w.store.put("configmaps", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
		Data: map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: " + version +
			"\netcd:\n  local:\n    dataDir: /var/lib/etcd\nnetworking:\n  dnsDomain: cluster.local\n"},
	})
	w.store.put("configmaps", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubelet-config"},
		Data:       map[string]string{"kubelet": kubeletConfig(version)},
	})
}

func template(app, image string, everywhere bool) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: app, Image: image}}},
	}
	if everywhere {
		t.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return t
}

func (w *World) addDaemonSet(namespace, name, image string) {
	w.store.put("daemonsets", &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, image, true)},
	})
}

func (w *World) addDeployment(namespace, name, image string, replicas int32, everywhere bool) {
	t, selector := template(name, image, everywhere), &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: t},
	}
	w.store.put("deployments", d)
	yes := true
	w.store.put("replicasets", &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-rs",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: d.UID, Controller: &yes}}},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: t},
	})
}

func (w *World) addService(namespace, name, app string) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": app}},
	}
	if name == "kube-dns" {
		s.Spec.ClusterIP = domainName
	}
	w.store.put("services", s)
}

// settle starts the pods that a cluster of some age has.
func (w *World) settle() {
	for range 3 {
		w.tickControllers()
		for _, p := range list[*corev1.Pod](w.store, "pods") {
			if p.Spec.NodeName != "" {
				markReady(p, true)
				w.store.put("pods", p)
			}
		}
	}
}
