package steps

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// withAPI gives a session whose API holds these objects.
func withAPI(t *testing.T, cps, nodes int, objects ...runtime.Object) (*Session, *fake.Clientset) {
	t.Helper()
	s := Open(cluster(cps, nodes), nil)
	t.Cleanup(func() { s.Close() })
	client := fake.NewClientset(objects...)
	s.client = client
	return s, client
}

// failing makes the next n requests of a kind fail.
func failing(client *fake.Clientset, verb, resource string, n int) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		n--
		return n >= 0, nil, errors.New("etcdserver: leader changed")
	})
}

func kubeadmConfigMap(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": text},
	}
}

func node(name, kubelet string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{
			NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: kubelet},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "h"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP, Address: "2001:db8::1"}},
		},
	}
	if change != nil {
		change(n)
	}
	return n
}

func quiet(string, ...any) {}

// kubeadm takes the version of `upgrade node` from the cluster. Before apply has come to its end, node
// would render the old manifests anew and call that a success.
func TestNodeIsNeverRunBeforeKubeadmConfigSaysTheTarget(t *testing.T) {
	tests := map[string]func(*Session) step{
		"control plane": func(s *Session) step { return UpgradeControlPlane(s, "cp-2", needsControlPlane, false) },
		"worker":        func(s *Session) step { return UpgradeNode(s, "w-1") },
	}
	for name, made := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := withAPI(t, 2, 1, kubeadmConfigMap("kubernetesVersion: v1.35.4\n"))
			s.hosts = nil // whoever asks a host crashes
			err := made(s).Run(t.Context(), seen(s.Cluster, old), quiet)
			want := "the cluster's kubeadm-config does not name the target yet: it says v1.35.4, not v1.36.3; run the same command again, it finishes kubeadm upgrade apply first"
			if !errors.Is(err, errOldConfig) || err.Error() != want {
				t.Errorf("error is %v, want %s", err, want)
			}
		})
	}
}

func TestCheckKubeadmConfigWaitsForTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := withAPI(t, 1, 0, kubeadmConfigMap("kubernetesVersion: v1.36.3\n"))
		failing(client, "get", "configmaps", 3)
		began := time.Now()
		if err := s.checkKubeadmConfig(t.Context(), target); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("error is %v after %v, want none after three more tries", err, time.Since(began))
		}
		failing(client, "get", "configmaps", 1<<30)
		err := s.checkKubeadmConfig(t.Context(), target)
		if want := "gave up after 3m0s: read ConfigMap kube-system/kubeadm-config: etcdserver: leader changed"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})
}

func lease(namespace, name, holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

// A Lease counts as renewed when its time has moved since the gate began; how it compares with our
// clock does not matter.
func TestLeasesRenewed(t *testing.T) {
	future := time.Now().Add(time.Hour)
	s, client := withAPI(t, 1, 0,
		lease("kube-system", "kube-controller-manager", "cp-1_a", future), lease("kube-system", "kube-scheduler", "cp-1_b", future))
	holds, err := s.leasesRenewed(t.Context(), Facts{})
	if err != nil {
		t.Fatal(err)
	}
	renew := func(name, holder string, at time.Time) {
		t.Helper()
		if _, err := client.CoordinationV1().Leases("kube-system").Update(t.Context(), lease("kube-system", name, holder, at), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want string) {
		t.Helper()
		if got, err := holds(t.Context()); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	want(`Lease kube-controller-manager was not renewed yet (holder "cp-1_a")`)
	renew("kube-controller-manager", "cp-1_a", future.Add(time.Second))
	want(`Lease kube-scheduler was not renewed yet (holder "cp-1_b")`)
	renew("kube-scheduler", "", future.Add(time.Second))
	want(`Lease kube-scheduler was not renewed yet (holder "")`)
	renew("kube-scheduler", "cp-2_c", future.Add(time.Second))
	want("")
	if err := client.CoordinationV1().Leases("kube-system").Delete(t.Context(), "kube-scheduler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := holds(t.Context()); err == nil {
		t.Errorf("without a Lease got %q and no error", got)
	}
}

// Where a component elects no leader it renews no Lease, and none is waited for.
func TestElecting(t *testing.T) {
	f := seen(cluster(2, 0), old)
	if got := fmt.Sprint(electing(f)); got != "[kube-controller-manager kube-scheduler]" {
		t.Errorf("got %s", got)
	}
	f.host("cp-2", func(h *Host) { h.Manifests["kube-scheduler"] = Manifest{NoLease: true} })
	if got := fmt.Sprint(electing(f)); got != "[kube-controller-manager]" {
		t.Errorf("got %s", got)
	}
}

// An API that never tells the Leases ends the gate: without what was before, nothing can be proven.
func TestLeasesThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := withAPI(t, 1, 0)
		_, err := s.leasesRenewed(t.Context(), Facts{})
		if want := `gave up after 3m0s: read Lease kube-controller-manager: leases.coordination.k8s.io "kube-controller-manager" not found`; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})
}

func TestKubeletIs(t *testing.T) {
	s, _ := withAPI(t, 1, 0, node("n", old, nil))
	tests := []struct{ node, version, missing, problem string }{
		{"n", old, "", ""},
		{"n", target, "node n still reports kubelet v1.35.4", ""},
		{"gone", target, "", `read node gone: nodes "gone" not found`},
	}
	for _, tt := range tests {
		missing, err := s.kubeletIs(tt.node, tt.version)(t.Context())
		if missing != tt.missing || (err == nil) != (tt.problem == "") || err != nil && err.Error() != tt.problem {
			t.Errorf("%s: got %q, %v, want %q, %q", tt.node, missing, err, tt.missing, tt.problem)
		}
	}
}

// ownServers gives a session in which each control plane's own API server answers these.
func ownServers(t *testing.T, answers map[string]answer) (*Session, *fleet) {
	s, _ := withAPI(t, len(answers), 0)
	f := newFleet(t)
	s.transport = f.failover(t, answers)
	s.endpoints = s.transport.endpoints
	return s, f
}

func TestOwnAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version := func(v string) answer {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/version" {
					says(500, "[+]ping ok\n[-]etcd failed: reason withheld\n")(w, r)
					return
				}
				says(200, `{"major":"1","gitVersion":"`+v+`"}`)(w, r)
			}
		}
		s, f := ownServers(t, map[string]answer{"cp-1": version(old), "cp-2": version(target), "cp-3": says(200, "ok")})
		f.set(f.down, "cp-1", false)
		tests := []struct {
			name             string
			holds            condition
			missing, problem string
		}{
			{"old", s.apiServerIs("cp-1", target), "API server of cp-1 answers v1.35.4", ""},
			{"new", s.apiServerIs("cp-2", target), "", ""},
			{"not understood", s.apiServerIs("cp-3", target), "", "/version: invalid character 'o' looking for beginning of value"},
			{"of a host that has none", s.apiServerIs("w-1", target), "", "the address of w-1's API server is not known"},
			{"ready", s.apiServerReady("cp-3"), "", ""},
			{"not ready", s.apiServerReady("cp-2"), "API server of cp-2: /readyz?verbose answers 500 Internal Server Error: etcd failed: reason withheld", ""},
			{"readiness of a host that has none", s.apiServerReady("w-1"), "", "the address of w-1's API server is not known"},
		}
		for _, tt := range tests {
			missing, err := tt.holds(t.Context())
			if missing != tt.missing || (err == nil) != (tt.problem == "") || err != nil && err.Error() != tt.problem {
				t.Errorf("%s: got %q, %v, want %q, %q", tt.name, missing, err, tt.missing, tt.problem)
			}
		}
		// With the own server down, another one that is well is no comfort.
		f.set(f.down, "cp-2", true)
		closeIdle(s.transport.transport)
		if missing, err := s.apiServerIs("cp-2", target)(t.Context()); missing != "" || err == nil || err.Error() != "API server of cp-2: connection refused" {
			t.Errorf("got %q, %v, want cp-2's own answer", missing, err)
		}
	})
}

// What an interrupted run leaves behind may settle by itself; nothing else is waited for.
func TestUnsettled(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Facts)
		want   string
	}{
		{"nothing has begun", func(f *Facts) { f.node("w-1", func(n *Node) { n.Ready, n.NotReady = false, "down" }) }, ""},
		{"begun, and all is well", func(f *Facts) { f.staged("w-1") }, ""},
		{"begun, and a node restarts", func(f *Facts) {
			f.staged("w-1")
			f.node("w-1", func(n *Node) { n.Ready, n.NotReady = false, "KubeletNotReady: starting" })
		}, "cluster: node node-of-w-1 is not Ready: KubeletNotReady: starting"},
		{"begun, and something that will not pass", func(f *Facts) {
			f.staged("w-1")
			f.node("w-1", func(n *Node) { n.Ready, n.NotReady = false, "KubeletNotReady: starting" })
			f.host("w-1", func(h *Host) { h.Missing = []string{"ctr"} })
		}, ""},
		{"begun for another target", func(f *Facts) {
			f.host("w-1", func(h *Host) { h.Staged[stageDir+"/v1.36.1/kubelet.0123456789abcdef"] = true })
			f.node("w-1", func(n *Node) { n.Ready, n.NotReady = false, "down" })
		}, ""},
		{"begun, and a node is cordoned", func(f *Facts) {
			f.staged("w-1")
			f.node("w-1", func(n *Node) { n.Cordoned = true })
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Open(cluster(1, 1), nil)
			f := seen(s.Cluster, old)
			tt.change(&f)
			if got := unsettled(s, f); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
