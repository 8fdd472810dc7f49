package steps

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kuberung/kuberung/internal/config"
)

// wantHolds asks a condition once. What is wanted is how its reason begins; "" wants it to hold.
func wantHolds(t *testing.T, holds condition, want string) {
	t.Helper()
	missing, err := holds(t.Context())
	if err != nil {
		missing = "error: " + err.Error()
	}
	if missing != want && (want == "" || !strings.HasPrefix(missing, want)) {
		t.Errorf("got %q, want %q", missing, want)
	}
}

// A heartbeat counts from the start of the kubelet that runs now, both by the host's clock.
func TestHeartbeatAfterStart(t *testing.T) {
	start := time.Now().Add(-240 * time.Hour).Truncate(time.Second) // a clock that is far off
	name := nodeName("w-1")
	beat := func(after time.Duration) runtime.Object {
		return lease("kube-node-lease", name, name, start.Add(after))
	}
	notReady := func(n *corev1.Node) {
		n.Status.Conditions[1].Status, n.Status.Conditions[1].Reason, n.Status.Conditions[1].Message = corev1.ConditionFalse, "KubeletNotReady", "no network"
	}
	tests := []struct {
		name    string
		state   string
		objects []runtime.Object
		want    string
	}{
		{"after", "active", []runtime.Object{beat(time.Second), node(name, target, nil)}, ""},
		{"before", "active", []runtime.Object{beat(-time.Second), node(name, target, nil)}, "node node-of-w-1 sent no heartbeat since its kubelet started"},
		{"at the very moment", "active", []runtime.Object{beat(0), node(name, target, nil)}, "node node-of-w-1 sent no heartbeat since its kubelet started"},
		{"after, and not Ready", "active", []runtime.Object{beat(time.Second), node(name, target, notReady)}, "node node-of-w-1 is not Ready: KubeletNotReady: no network"},
		{"no Lease", "active", []runtime.Object{node(name, target, nil)}, "error: read the Lease of node node-of-w-1: "},
		{"no node", "active", []runtime.Object{beat(time.Second)}, "error: read node node-of-w-1: "},
		{"the kubelet keeps crashing", "activating", []runtime.Object{beat(time.Second), node(name, target, nil)}, "error: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStand(t)
			session := s.open(config.Worker)
			session.client = fake.NewClientset(tt.objects...)
			s.note("kubelet-state", tt.state+"\n")
			s.note("kubelet-started", start.UTC().Format("Mon 2006-01-02 15:04:05 MST")+"\n")
			wantHolds(t, session.heartbeatAfterStart("w-1", name), tt.want)
		})
	}
}

func TestKubeletStarted(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	s.note("kubelet-state", "active\n")
	s.note("kubelet-started", "Tue 2026-12-01 00:52:24 UTC\n")
	got, err := session.kubeletStarted(t.Context(), "w-1")
	if want := time.Date(2026, 12, 1, 0, 52, 24, 0, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	s.note("kubelet-state", "activating\n")
	if _, err := session.kubeletStarted(t.Context(), "w-1"); err == nil || !strings.Contains(err.Error(), "kubelet is activating") {
		t.Errorf("error is %v, want the unit's state", err)
	}
	s.note("kubelet-state", "active\n")
	s.note("kubelet-started", "no date\n")
	if _, err := session.kubeletStarted(t.Context(), "w-1"); err == nil {
		t.Error("a start that is no date gives no error")
	}
}

func TestRestartKubelet(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	session.client = fake.NewClientset(node(nodeName("w-1"), target, nil))
	if err := RestartKubelet(session, "w-1").Run(t.Context(), seen(session.Cluster, old), quiet); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.ran()); got != "[systemctl daemon-reload systemctl restart kubelet]" {
		t.Errorf("ran %s", got)
	}
	s.program("systemctl", "echo Unit kubelet.service not found. >&2; exit 5")
	err := RestartKubelet(session, "w-1").Run(t.Context(), seen(session.Cluster, old), quiet)
	if err == nil || !strings.HasPrefix(err.Error(), "systemctl restart kubelet: ") || !strings.Contains(err.Error(), "not found") {
		t.Errorf("error is %v", err)
	}
}

func TestRuntimeAnswers(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	s.program("crictl", `[ "$*" = "--runtime-endpoint unix:///run/x.sock info" ] && cat "$FAKE/info"`)
	s.note("info", `{"status":{"conditions":[{"type":"RuntimeReady","status":true}]}}`)
	holds := session.runtimeAnswers("w-1", "unix:///run/x.sock")
	wantHolds(t, holds, "")
	s.program("crictl", "echo connection refused >&2; exit 1")
	wantHolds(t, holds, "error: ask the container runtime of w-1: ")
}

func TestPodsWell(t *testing.T) {
	s, client := withAPI(t, 1, 1)
	wantHolds(t, s.podsWell("n", ClusterFacts{}), "")
	failing(client, "list", "pods", 1)
	wantHolds(t, s.podsWell("n", ClusterFacts{}), "error: list the pods of node n: etcdserver: leader changed")
}

// A node is proven against the photo that was taken before, not against what is there meanwhile.
func TestAwaitNodeComparesWithThePhoto(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	name, start := nodeName("w-1"), time.Now().Truncate(time.Second)
	session.client = fake.NewClientset(node(name, target, nil), lease("kube-node-lease", name, name, start.Add(time.Second)))
	s.note("kubelet-state", "active\n")
	s.note("kubelet-started", start.UTC().Format("Mon 2006-01-02 15:04:05 MST")+"\n")
	s.program("crictl", `echo '{"status":{"conditions":[{"type":"RuntimeReady","status":true}]}}'`)
	now := seen(session.Cluster, target)
	photo := now
	photo.Cluster.Daemons = map[string]bool{name + " shop/net": true}
	want := "DaemonSet shop/net has no Ready pod on node node-of-w-1, as it had before"
	if got := firstReason(t, AwaitNode(session, "w-1", photo), now); got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
}

func TestHealthz(t *testing.T) {
	s := newStand(t)
	session := s.open(config.ControlPlane)
	ok := true
	s.listen("127.0.0.1:10257", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || !ok {
			says(500, "[+]ping ok\n[-]leaderElection failed: reason withheld\n")(w, r)
			return
		}
		says(200, "ok")(w, r)
	})
	holds := session.healthz("cp-1", "controller manager", "127.0.0.1:10257")
	wantHolds(t, holds, "")
	ok = false
	wantHolds(t, holds, "controller manager of cp-1 answers 500 Internal Server Error: leaderElection failed: reason withheld")
	wantHolds(t, session.healthz("cp-1", "scheduler", "127.0.0.1:10259"), "scheduler of cp-1: ")
}

// Each component is asked where its own manifest says.
func TestObserveComponents(t *testing.T) {
	s := newStand(t)
	session := s.open(config.ControlPlane)
	s.listen("127.0.0.1:10257", says(200, "ok"))
	s.listen("10.0.0.1:11259", says(500, "[-]leaderElection failed: reason withheld"))
	h := Host{Name: "cp-1", Sick: []string{"of yesterday"}, Manifests: map[string]Manifest{
		"kube-controller-manager": {Health: "127.0.0.1:10257"}, "kube-scheduler": {Health: "10.0.0.1:11259"},
	}}
	hosts := map[string]Host{"cp-1": h, "w-1": {Name: "w-1"}}
	session.observeComponents(t.Context(), hosts)
	want := []string{"kube-scheduler of cp-1 answers 500 Internal Server Error: leaderElection failed: reason withheld"}
	if got := hosts["cp-1"].Sick; len(got) != 1 || got[0] != want[0] || len(hosts["w-1"].Sick) > 0 {
		t.Errorf("got %q, want %q", got, want)
	}
	wantHolds(t, session.componentsHealthy(h), want[0])
	wantHolds(t, session.componentsHealthy(Host{Name: "cp-1"}), "")
}

// The static pods that run must be those that the host's own kubelet lists, whatever the API says.
func TestStaticPodsRun(t *testing.T) {
	s := newStand(t)
	session := s.open(config.ControlPlane)
	_, admin := newAuthority(t).client("kubernetes-admin")
	session.admin = &tls.Config{Certificates: []tls.Certificate{admin}}
	static := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "etcd-a", UID: "new", Annotations: map[string]string{"kubernetes.io/config.source": "file"},
	}}
	other := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "w", Annotations: map[string]string{"kubernetes.io/config.source": "api"},
	}}
	list, err := json.Marshal(corev1.PodList{Items: []corev1.Pod{static, other}})
	if err != nil {
		t.Fatal(err)
	}
	code := 200
	s.listen("10.0.0.1:10250", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" {
			code = 404
		}
		says(code, string(list))(w, r)
	})
	s.program("crictl", `[ "$*" = "--runtime-endpoint unix:///run/x.sock pods --state ready -o json" ] && cat "$FAKE/pods"`)
	running := func(uids ...string) {
		var items []string
		for _, uid := range uids {
			items = append(items, `{"state":"SANDBOX_READY","metadata":{"namespace":"kube-system","name":"etcd-a","uid":"`+uid+`"}}`)
		}
		s.note("pods", `{"items":[`+strings.Join(items, ",")+`]}`)
	}
	holds := session.staticPodsRun("cp-1", "unix:///run/x.sock", "10.0.0.1:10250")
	running("old")
	wantHolds(t, holds, "the sandbox of kube-system/etcd-a is still the one from before the restart")
	running("old", "new")
	wantHolds(t, holds, "an earlier sandbox of kube-system/etcd-a still runs")
	running()
	wantHolds(t, holds, "no sandbox of kube-system/etcd-a runs yet")
	running("new")
	wantHolds(t, holds, "")
	code = 401
	wantHolds(t, holds, "error: ask the kubelet of cp-1 for its pods: /pods answers 401 Unauthorized")
	code = 200
	s.note("pods", "FATA")
	wantHolds(t, holds, "error: ask the container runtime of cp-1: crictl pods: ")
}

func TestObserveHost(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	s.program("ctr", ":")
	s.program("crictl", "echo crictl version v1.35.0")
	s.program("kubelet", "echo Kubernetes v1.35.4")
	s.program("kubeadm", "echo v1.35.4")
	cert, _ := newAuthority(t).client("system:node:worker-one")
	s.file("/var/lib/kubelet/pki/kubelet-client-current.pem", cert)
	h := session.observeHost(t.Context(), session.Cluster.Hosts[0])
	if h.Err != nil || h.Name != "w-1" || h.Role != config.Worker || h.NodeName != "worker-one" {
		t.Errorf("host is %+v", h)
	}
	if record, known := h.Kubeadm[nodeUnit(target)]; !known || len(h.Kubeadm) != 1 || record.State.String() != "none" {
		t.Errorf("records are %+v", h.Kubeadm)
	}
	s.file("/var/lib/kubelet/pki/kubelet-client-current.pem", "")
	if h = session.observeHost(t.Context(), session.Cluster.Hosts[0]); h.Err == nil || h.Name != "w-1" {
		t.Errorf("without a certificate the host is %+v", h)
	}
	s.file("/var/lib/kubelet/pki/kubelet-client-current.pem", cert)
	s.program("systemctl", "exit 1") // the state of a unit cannot be told
	h = session.observeHost(t.Context(), session.Cluster.Hosts[0])
	if h.Err == nil || !strings.HasPrefix(h.Err.Error(), "read the record of unit kubeadm-node-v1.36.3: ") {
		t.Errorf("error is %v", h.Err)
	}
	session.Close()
	if h = session.observeHost(t.Context(), session.Cluster.Hosts[0]); h.Err == nil || h.Name != "w-1" || h.Role != config.Worker {
		t.Errorf("of a host that cannot be reached: %+v", h)
	}
}
