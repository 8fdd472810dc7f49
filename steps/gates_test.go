package steps

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func ptr[V any](v V) *V { return &v }

func TestCompareSandboxes(t *testing.T) {
	listed := map[string]string{"kube-system/etcd-a": "u1", "kube-system/kube-apiserver-a": "u2"}
	tests := []struct {
		name    string
		listed  map[string]string
		running map[string][]string
		want    string
	}{
		{"the listed ones run", listed, map[string][]string{"kube-system/etcd-a": {"u1"}, "kube-system/kube-apiserver-a": {"u2"}}, ""},
		{"others do not matter", listed, map[string][]string{"kube-system/etcd-a": {"u1"}, "kube-system/kube-apiserver-a": {"u2"}, "shop/web": {"u7", "u8"}}, ""},
		{"one is from before the restart", listed, map[string][]string{"kube-system/etcd-a": {"u1"}, "kube-system/kube-apiserver-a": {"old"}},
			"the sandbox of kube-system/kube-apiserver-a is still the one from before the restart"},
		{"old beside new", listed, map[string][]string{"kube-system/etcd-a": {"old", "u1"}, "kube-system/kube-apiserver-a": {"u2"}},
			"an earlier sandbox of kube-system/etcd-a still runs"},
		{"new beside old", listed, map[string][]string{"kube-system/etcd-a": {"u1", "old"}, "kube-system/kube-apiserver-a": {"u2"}},
			"an earlier sandbox of kube-system/etcd-a still runs"},
		{"one does not run", listed, map[string][]string{"kube-system/etcd-a": {"u1"}}, "no sandbox of kube-system/kube-apiserver-a runs yet"},
		{"nothing runs", listed, nil, "no sandbox of kube-system/etcd-a runs yet"},
		{"the kubelet lists none", nil, map[string][]string{"kube-system/etcd-a": {"u1"}}, "the kubelet lists no static pod yet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := compareSandboxes(tt.listed, tt.running); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseSandboxes(t *testing.T) {
	got, err := parseSandboxes([]byte(`{"items": [
		{"id": "1", "state": "SANDBOX_READY", "metadata": {"name": "etcd-a", "namespace": "kube-system", "uid": "u1"}},
		{"id": "2", "state": "SANDBOX_NOTREADY", "metadata": {"name": "etcd-a", "namespace": "kube-system", "uid": "u0"}},
		{"id": "3", "state": "SANDBOX_READY", "metadata": {"name": "web", "namespace": "shop", "uid": "u2"}},
		{"id": "4", "state": "SANDBOX_READY", "metadata": {"name": "web", "namespace": "shop", "uid": "u3"}}]}`))
	want := map[string][]string{"kube-system/etcd-a": {"u1"}, "shop/web": {"u2", "u3"}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("error %v, sandboxes (-want +got):\n%s", err, d)
	}
	if _, err := parseSandboxes([]byte("FATA: connection refused")); err == nil {
		t.Error("what is no JSON gives no error")
	}
}

func pod(name string, uid types.UID, ready bool, labels map[string]string) corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func slice(service string, ready *bool, uids ...types.UID) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: service},
	}}
	for _, uid := range uids {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			TargetRef: &corev1.ObjectReference{UID: uid}, Conditions: discoveryv1.EndpointConditions{Ready: ready},
		})
	}
	return s
}

func TestCompareEndpoints(t *testing.T) {
	app := map[string]string{"app": "web"}
	web := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: app}}
	early, manual := web, web
	early.Spec.PublishNotReadyAddresses = true
	manual.Spec.Selector = nil
	alias := web
	alias.Spec.Type = corev1.ServiceTypeExternalName
	remote := pod("web-2", "p2", true, app)
	remote.Spec.NodeName = "m"
	leaving := pod("web-1", "p1", true, app)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	elsewhere := pod("web-9", "p9", true, app)
	elsewhere.Namespace = "test"
	nameless := slice("web", ptr(true), "p1")
	nameless.Endpoints = append(nameless.Endpoints, discoveryv1.Endpoint{})
	yes, no := ptr(true), ptr(false)

	tests := []struct {
		name    string
		service corev1.Service
		pods    []corev1.Pod
		slices  []discoveryv1.EndpointSlice
		want    string
	}{
		{"they agree", web, []corev1.Pod{pod("web-1", "p1", true, app)}, []discoveryv1.EndpointSlice{slice("web", yes, "p1")}, ""},
		{"readiness left out means ready", web, []corev1.Pod{pod("web-1", "p1", true, app)}, []discoveryv1.EndpointSlice{slice("web", nil, "p1")}, ""},
		{"over two slices", web, []corev1.Pod{pod("web-1", "p1", true, app), pod("web-2", "p2", true, app)},
			[]discoveryv1.EndpointSlice{slice("web", yes, "p1"), slice("web", yes, "p2")}, ""},
		{"ready, but not served yet", web, []corev1.Pod{pod("web-1", "p1", true, app)}, []discoveryv1.EndpointSlice{slice("web", no, "p1")},
			"pod shop/web-1 is Ready, but Service web does not send to it yet"},
		{"ready, and in no slice", web, []corev1.Pod{pod("web-1", "p1", true, app)}, nil,
			"pod shop/web-1 is Ready, but Service web does not send to it yet"},
		{"served, but not ready", web, []corev1.Pod{pod("web-1", "p1", false, app)}, []discoveryv1.EndpointSlice{slice("web", yes, "p1")},
			"Service shop/web still sends to a pod that is gone or not Ready"},
		{"an alias of somewhere else", alias, []corev1.Pod{pod("web-1", "p1", true, app)}, nil, ""},
		{"no pod of it on the node", web, []corev1.Pod{remote}, nil, ""},
		{"one on the node, another not served yet", web, []corev1.Pod{pod("web-1", "p1", true, app), remote}, []discoveryv1.EndpointSlice{slice("web", yes, "p1")},
			"pod shop/web-2 is Ready, but Service web does not send to it yet"},
		{"served, but gone", web, []corev1.Pod{pod("web-0", "p0", false, app)}, []discoveryv1.EndpointSlice{slice("web", yes, "p1")},
			"Service shop/web still sends to a pod that is gone or not Ready"},
		{"served, but leaving", web, []corev1.Pod{leaving}, []discoveryv1.EndpointSlice{slice("web", yes, "p1")},
			"Service shop/web still sends to a pod that is gone or not Ready"},
		{"leaving, and no longer served", web, []corev1.Pod{leaving}, []discoveryv1.EndpointSlice{slice("web", no, "p1")}, ""},
		{"not ready and not served", web, []corev1.Pod{pod("web-1", "p1", false, app)}, []discoveryv1.EndpointSlice{slice("web", no, "p1")}, ""},
		{"another pod's labels", web, []corev1.Pod{pod("db-1", "p1", true, map[string]string{"app": "db"})}, nil, ""},
		{"another namespace", web, []corev1.Pod{elsewhere}, nil, ""},
		{"another namespace's pod on the node", web, []corev1.Pod{elsewhere, remote}, nil, ""},
		{"another service's slice", web, []corev1.Pod{pod("web-1", "p1", true, app)}, []discoveryv1.EndpointSlice{slice("db", yes, "p1")},
			"pod shop/web-1 is Ready, but Service web does not send to it yet"},
		{"an endpoint that is no pod", web, []corev1.Pod{pod("web-1", "p1", true, app)}, []discoveryv1.EndpointSlice{nameless}, ""},
		{"publishes what is not ready", early, []corev1.Pod{pod("web-1", "p1", false, app)}, []discoveryv1.EndpointSlice{slice("web", yes, "p1")}, ""},
		{"selects nothing by itself", manual, nil, []discoveryv1.EndpointSlice{slice("web", yes, "p1")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := compareEndpoints("n", []corev1.Service{tt.service}, tt.pods, tt.slices); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCompareWorkloads(t *testing.T) {
	tests := []struct {
		name        string
		before, now map[string]Workload
		want        string
	}{
		{"as before", map[string]Workload{"Deployment a/web": {3, 3}}, map[string]Workload{"Deployment a/web": {3, 3}}, ""},
		{"one is missing", map[string]Workload{"Deployment a/web": {3, 3}}, map[string]Workload{"Deployment a/web": {3, 2}}, "Deployment a/web has 2 of 3 replicas ready"},
		{"it was not whole before", map[string]Workload{"Deployment a/web": {3, 2}}, map[string]Workload{"Deployment a/web": {3, 2}}, ""},
		{"it is better than before", map[string]Workload{"Deployment a/web": {3, 1}}, map[string]Workload{"Deployment a/web": {3, 3}}, ""},
		{"scaled down meanwhile", map[string]Workload{"Deployment a/web": {3, 3}}, map[string]Workload{"Deployment a/web": {1, 1}}, ""},
		{"scaled up meanwhile", map[string]Workload{"Deployment a/web": {1, 1}}, map[string]Workload{"Deployment a/web": {9, 1}}, ""},
		{"removed meanwhile", map[string]Workload{"Deployment a/web": {3, 3}}, nil, ""},
		{"new meanwhile", nil, map[string]Workload{"Deployment a/web": {3, 0}}, ""},
		{"the first by name is told", map[string]Workload{"StatefulSet a/db": {1, 1}, "Deployment b/web": {1, 1}},
			map[string]Workload{"StatefulSet a/db": {1, 0}, "Deployment b/web": {1, 0}}, "Deployment b/web has 0 of 1 replicas ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := compareWorkloads(tt.before, tt.now); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPodProblem(t *testing.T) {
	of := func(kind, name string, ready bool) corev1.Pod {
		p := pod(name+"-abc", "p", ready, nil)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr(true)}}
		return p
	}
	leaving := of("DaemonSet", "net", true)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	loop := of("ReplicaSet", "web", false)
	loop.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "log"},
		{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
	}
	pulling := of("ReplicaSet", "web", false)
	pulling.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
	}
	network := ClusterFacts{Daemons: map[string]bool{"n shop/net": true, "m shop/other": true}}
	tests := []struct {
		name   string
		pods   []corev1.Pod
		before ClusterFacts
		want   string
	}{
		{"nothing on it", nil, ClusterFacts{}, ""},
		{"the network is back", []corev1.Pod{of("DaemonSet", "net", true)}, network, ""},
		{"the network is not Ready", []corev1.Pod{of("DaemonSet", "net", false)}, network, "DaemonSet shop/net has no Ready pod on node n, as it had before"},
		{"the network is gone", nil, network, "DaemonSet shop/net has no Ready pod on node n, as it had before"},
		{"the network's old pod is leaving", []corev1.Pod{leaving}, network, "DaemonSet shop/net has no Ready pod on node n, as it had before"},
		{"what only has its name", []corev1.Pod{of("ReplicaSet", "net", true)}, network, "DaemonSet shop/net has no Ready pod on node n, as it had before"},
		{"it was not Ready before", []corev1.Pod{of("DaemonSet", "net", false)}, ClusterFacts{}, ""},
		{"a new crash loop", []corev1.Pod{loop}, ClusterFacts{}, "container shop/web/app on node n is in a crash loop, and was not before"},
		{"an old crash loop, in another pod", []corev1.Pod{loop}, ClusterFacts{Crashing: map[string]bool{"shop/web/app": true}}, ""},
		{"not started yet", []corev1.Pod{pulling}, ClusterFacts{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := podProblem("n", tt.pods, tt.before); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProxyProblem(t *testing.T) {
	ok := appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Spec:       appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "r/kube-proxy:" + target}}}}},
		Status: appsv1.DaemonSetStatus{
			ObservedGeneration: 3, DesiredNumberScheduled: 5, UpdatedNumberScheduled: 5, NumberAvailable: 5, NumberReady: 5,
		},
	}
	tests := []struct {
		name   string
		change func(*appsv1.DaemonSet)
		want   string
	}{
		{"rolled out", func(*appsv1.DaemonSet) {}, ""},
		{"old", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "r/kube-proxy:v1.35.4" },
			"kube-proxy is still v1.35.4: kubeadm moves it with the last control plane; if it did not, run kubeadm upgrade node phase addon all on a control plane"},
		{"not observed", func(d *appsv1.DaemonSet) { d.Status.ObservedGeneration = 2 }, "the change of kube-proxy is not observed yet"},
		{"half new", func(d *appsv1.DaemonSet) { d.Status.UpdatedNumberScheduled = 3 }, "kube-proxy is new on 3 of 5 nodes"},
		{"not ready", func(d *appsv1.DaemonSet) { d.Status.NumberReady = 4 }, "kube-proxy is Ready on 4 of 5 nodes"},
		{"not available", func(d *appsv1.DaemonSet) { d.Status.NumberAvailable = 4 }, "kube-proxy is Ready on 4 of 5 nodes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := ok.DeepCopy()
			tt.change(d)
			if got := proxyProblem(d, target); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDNSProblem(t *testing.T) {
	ok := appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(2)), Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "r/coredns:v1.14.0"}}}}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
	}
	tests := []struct {
		name, tag string
		change    func(*appsv1.Deployment)
		want      string
	}{
		{"rolled out", "v1.14.0", func(*appsv1.Deployment) {}, ""},
		{"old", "v1.14.1", func(*appsv1.Deployment) {}, "CoreDNS is still v1.14.0"},
		{"newer than kubeadm's", "v1.13.1", func(*appsv1.Deployment) {}, ""},
		{"no tag is wanted", "", func(*appsv1.Deployment) {}, ""},
		{"not observed", "v1.14.0", func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 2 }, "the change of CoreDNS is not observed yet"},
		{"old ones are still there", "v1.14.0", func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, "CoreDNS: 2 of 2 replicas are new, 2 available, 3 in all"},
		{"not available", "v1.14.0", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, "CoreDNS: 2 of 2 replicas are new, 1 available, 2 in all"},
		{"half new", "v1.14.0", func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }, "CoreDNS: 1 of 2 replicas are new, 2 available, 2 in all"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := ok.DeepCopy()
			tt.change(d)
			if got := dnsProblem(d, tt.tag); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRuntimeProblem(t *testing.T) {
	tests := []struct{ name, info, want string }{
		{"ready", `{"status":{"conditions":[{"type":"RuntimeReady","status":true}]}}`, ""},
		{"ready without a network", `{"status":{"conditions":[{"type":"NetworkReady","status":false,"reason":"NetworkPluginNotReady"},{"type":"RuntimeReady","status":true}]}}`, ""},
		{"not ready", `{"status":{"conditions":[{"type":"RuntimeReady","status":false,"reason":"Broken","message":"no disk"}]}}`, "the container runtime is not ready: Broken no disk"},
		{"says nothing", `{"status":{"conditions":[]}}`, "the container runtime does not say whether it is ready"},
		{"says something else", `{}`, "the container runtime does not say whether it is ready"},
	}
	for _, tt := range tests {
		if got, err := runtimeProblem([]byte(tt.info)); got != tt.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := runtimeProblem([]byte("FATA")); err == nil {
		t.Error("what is no JSON gives no error")
	}
}

// What /readyz?verbose answers; a short text if it is none of that.
func TestFirstFailure(t *testing.T) {
	tests := []struct{ text, want string }{
		{"[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\n[-]poststarthook/x failed: reason withheld\nreadyz check failed\n",
			"etcd failed: reason withheld poststarthook/x failed: reason withheld"},
		{"Internal Server\nError", "Internal Server Error"},
		{"1 2 3 4 5 6 7 8 9 10 11 12 13 14", "1 2 3 4 5 6 7 8 9 10 11 12"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := firstFailure(tt.text); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestWantedCoreDNS(t *testing.T) {
	f := seen(cluster(1, 1), old)
	if got := wantedCoreDNS(f); got != "v1.14.0" {
		t.Errorf("got %q", got)
	}
	f.Cluster.DNSTag = "v1.13.1"
	if got := wantedCoreDNS(f); got != "v1.13.1" {
		t.Errorf("with a pinned tag got %q", got)
	}
	f.Artifacts, f.Cluster.DNSTag = Artifacts{}, ""
	if got := wantedCoreDNS(f); got != "" {
		t.Errorf("without artifacts got %q", got)
	}
}
