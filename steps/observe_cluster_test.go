package steps

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kuberung/kuberung/drain"
)

func TestReadCluster(t *testing.T) {
	proxy := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}}
	proxy.Spec.Template.Spec.Containers = []corev1.Container{{Image: "r/kube-proxy:v1.35.4"}}
	dns := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}, Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(2))}}
	dns.Spec.Template.Spec.Containers = []corev1.Container{{Image: "r/coredns:v1.13.1"}}
	_, client := withAPI(t, 1, 0, proxy, dns,
		kubeadmConfigMap("kubernetesVersion: v1.35.4\ndns:\n  imageTag: v1.13.0\netcd:\n  local:\n    dataDir: /var/lib/etcd\n    imageTag: 3.6.7-0\n"),
		node("a", old, func(n *corev1.Node) { n.Status.NodeInfo.MachineID = "m" }),
		node("b", target, func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Annotations = map[string]string{drain.WindowAnnotation: drain.Cordoned}
			n.Status.Conditions[1] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}
		}),
		node("c", old, func(n *corev1.Node) { n.Status.Conditions, n.Status.Addresses = nil, nil }),
	)
	got, err := readCluster(t.Context(), client)
	both := []string{"10.0.0.1", "2001:db8::1"}
	all := append([]string{"h"}, both...)
	want := ClusterFacts{
		KubeadmVersion: old, ProxyImage: "r/kube-proxy:v1.35.4", CoreDNSImage: "r/coredns:v1.13.1", CoreDNSReplicas: 2,
		Rollout: "CoreDNS: 0 of 2 replicas are new, 0 available, 0 in all", EtcdTag: "3.6.7-0", DNSTag: "v1.13.0",
		Nodes: map[string]Node{
			"a": {Name: "a", MachineID: "m", Kubelet: old, Ready: true, NotReady: ":", Address: "10.0.0.1", Kubelets: "10.0.0.1:10250", Internal: both, Addresses: all},
			"b": {Name: "b", Kubelet: target, NotReady: "NodeStatusUnknown: Kubelet stopped posting node status.", Cordoned: true, Window: drain.Cordoned, Address: "10.0.0.1", Kubelets: "10.0.0.1:10250", Internal: both, Addresses: all},
			"c": {Name: "c", Kubelet: old, NotReady: "it reports no Ready condition"},
		},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("error %v, facts (-want +got):\n%s", err, d)
	}
}

// A rollout that is not complete is told, kube-proxy's first.
func TestReadClusterTellsRollouts(t *testing.T) {
	const proxyLeft, dnsLeft = "kube-proxy is new on 1 of 2 nodes", "CoreDNS: 1 of 2 replicas are new, 2 available, 3 in all"
	for _, tt := range []struct {
		name          string
		nodes, copies int32 // that are new
		want          string
	}{
		{"complete", 2, 2, ""},
		{"kube-proxy", 1, 2, proxyLeft},
		{"CoreDNS", 2, 1, dnsLeft},
		{"both", 1, 1, proxyLeft},
	} {
		proxy, dns := addOnObjects()
		proxy.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: tt.nodes, NumberAvailable: 2, NumberReady: 2}
		dns.Status = appsv1.DeploymentStatus{Replicas: 4 - tt.copies, UpdatedReplicas: tt.copies, AvailableReplicas: 2}
		_, client := withAPI(t, 1, 0, proxy, dns, kubeadmConfigMap("kubernetesVersion: v1.36.3\n"))
		if got, err := readCluster(t.Context(), client); err != nil || got.Rollout != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got.Rollout, err, tt.want)
		}
	}
}

// A cluster may have neither kube-proxy nor CoreDNS, and its etcd elsewhere.
func TestReadClusterWithoutAddOns(t *testing.T) {
	_, client := withAPI(t, 1, 0, kubeadmConfigMap("kubernetesVersion: v1.35.4\netcd:\n  external:\n    endpoints: [https://10.9.9.9:2379]\n"))
	got, err := readCluster(t.Context(), client)
	want := ClusterFacts{Nodes: map[string]Node{}, KubeadmVersion: old, ExternalEtcd: true}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("error %v, facts (-want +got):\n%s", err, d)
	}
}

// What could not be read is an error, never an absence.
func TestReadClusterErrors(t *testing.T) {
	config := kubeadmConfigMap("kubernetesVersion: v1.35.4\n")
	tests := []struct {
		name     string
		objects  []runtime.Object
		resource string // that cannot be read
		want     string
	}{
		{"nodes", []runtime.Object{config}, "nodes", "list nodes: etcdserver: leader changed"},
		{"kube-proxy", []runtime.Object{config}, "daemonsets", "read DaemonSet kube-proxy: etcdserver: leader changed"},
		{"CoreDNS", []runtime.Object{config}, "deployments", "read Deployment coredns: etcdserver: leader changed"},
		{"no kubeadm-config", nil, "", `read ConfigMap kube-system/kubeadm-config: configmaps "kubeadm-config" not found`},
		{"kubeadm-config without a version", []runtime.Object{kubeadmConfigMap("clusterName: x\n")}, "",
			"ConfigMap kube-system/kubeadm-config: ClusterConfiguration names no kubernetesVersion"},
		{"kubeadm-config that is no YAML", []runtime.Object{kubeadmConfigMap("{")}, "",
			"ConfigMap kube-system/kubeadm-config: ClusterConfiguration: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, client := withAPI(t, 1, 0, tt.objects...)
			if tt.resource != "" {
				failing(client, "*", tt.resource, 9)
			}
			if _, err := readCluster(t.Context(), client); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

func TestObserveAPIServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := ownServers(t, map[string]answer{"cp-1": says(200, `{"gitVersion":"v1.35.4"}`), "cp-2": says(200, "{}"), "cp-3": says(200, "{}")})
		f.set(f.down, "cp-2", true)
		hosts := map[string]Host{"cp-1": {Name: "cp-1"}, "cp-2": {Name: "cp-2"}}
		s.observeAPIServers(t.Context(), hosts)
		if h := hosts["cp-1"]; h.APIVersion != old || h.APIErr != nil || h.Name != "cp-1" {
			t.Errorf("cp-1 is %+v", h)
		}
		if h := hosts["cp-2"]; h.APIErr == nil || h.APIVersion != "" {
			t.Errorf("cp-2 is %+v", h)
		}
		if _, asked := hosts["cp-3"]; asked {
			t.Error("cp-3 was not to be asked")
		}
	})
}

func TestTakePhoto(t *testing.T) {
	loop := pod("web-1", "p", false, nil)
	loop.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	network := pod("net-abc", "p2", true, nil)
	network.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "net", Controller: ptr(true)}}
	_, client := withAPI(t, 1, 0, &loop, &network,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(3))}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(1))}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 1}},
	)
	var got ClusterFacts
	if err := takePhoto(t.Context(), client, &got); err != nil {
		t.Fatal(err)
	}
	want := ClusterFacts{
		Workloads: map[string]Workload{"Deployment shop/web": {3, 2}, "StatefulSet shop/web": {1, 1}},
		Crashing:  map[string]bool{"shop/web-1/app": true},
		Daemons:   map[string]bool{"n shop/net": true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("photo (-want +got):\n%s", d)
	}
	for _, resource := range []string{"deployments", "statefulsets", "pods"} {
		_, client := withAPI(t, 1, 0)
		failing(client, "list", resource, 9)
		if err := takePhoto(t.Context(), client, &got); err == nil {
			t.Errorf("without %s there is no error", resource)
		}
	}
}

func TestEndpointsOf(t *testing.T) {
	c := cluster(3, 1)
	seen := map[string]Host{
		"cp-1": {Manifests: map[string]Manifest{"kube-apiserver": {Advertise: "10.0.0.1:6443"}, "etcd": {Client: "10.0.0.1:2379"}}},
		"cp-2": {Err: errors.New("unreachable")},
		"cp-3": {Manifests: map[string]Manifest{"kube-apiserver": {Advertise: "10.0.0.3:6443"}}},
		"w-1":  {Manifests: map[string]Manifest{"kube-apiserver": {Advertise: "10.0.0.9:6443"}}},
	}
	api, etcd := endpointsOf(c, seen)
	if fmt.Sprint(api) != "[{cp-1 10.0.0.1:6443} {cp-3 10.0.0.3:6443}]" || fmt.Sprint(etcd) != "[{cp-1 10.0.0.1:2379}]" {
		t.Errorf("API servers %v, etcd %v", api, etcd)
	}
}
