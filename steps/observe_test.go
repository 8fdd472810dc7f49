package steps

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"crypto/x509"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/internal/config"
)

// cloud is an API server behind a stand: what it serves, by path.
type cloud struct {
	mu      sync.Mutex
	objects map[string]any
	asked   map[string]int
}

func (c *cloud) put(path string, object any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[path] = object
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[r.URL.Path]++
	object, found := c.objects[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	if !found {
		w.WriteHeader(http.StatusNotFound)
		object = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 404, Reason: metav1.StatusReasonNotFound}
	}
	_ = json.NewEncoder(w).Encode(object)
}

// wholeCluster is a stand that is a control plane with its API server, reached over SSH alone.
func standCluster(t *testing.T) (*stand, *Session, *cloud) {
	t.Helper()
	s := newStand(t)
	session := s.open(config.ControlPlane)
	s.program("ctr", ":")
	s.program("crictl", "echo crictl version v1.35.0")
	s.program("kubelet", "echo Kubernetes v1.35.4")
	s.program("kubeadm", "echo v1.35.4")
	a := newAuthority(t)
	nodeCert, _ := a.client("system:node:node-a")
	s.file("/var/lib/kubelet/pki/kubelet-client-current.pem", nodeCert)
	s.file("/etc/kubernetes/manifests/kube-apiserver.yaml", strings.Replace(read(t, "host/kube-apiserver.yaml"), "--secure-port=6444", "--secure-port=6443", 1))
	s.file("/etc/kubernetes/manifests/etcd.yaml", read(t, "host/etcd.yaml"))
	admin, adminTLS := a.client("kubernetes-admin")
	key, err := x509.MarshalPKCS8PrivateKey(adminTLS.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	s.file("/etc/kubernetes/admin.conf", adminConfText(certificatePEM(a.cert), admin, keyPEM))
	for name, text := range map[string]string{"ca.crt": certificatePEM(a.cert), "healthcheck-client.crt": admin, "healthcheck-client.key": keyPEM} {
		s.file("/etc/kubernetes/pki/etcd/"+name, text)
	}
	network := pod("net-abc", "p", true, nil)
	network.Spec.NodeName = "node-a"
	network.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "net", UID: "d", Controller: ptr(true)}}
	list := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }
	c := &cloud{asked: map[string]int{}, objects: map[string]any{
		"/version":      map[string]string{"gitVersion": old},
		"/api/v1/nodes": corev1.NodeList{TypeMeta: list("NodeList"), Items: []corev1.Node{*node("node-a", old, nil)}},
		"/api/v1/namespaces/kube-system/configmaps/kubeadm-config": kubeadmConfigMap("kubernetesVersion: v1.35.4\n"),
		"/apis/apps/v1/deployments": appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{Kind: "DeploymentList", APIVersion: "apps/v1"}, Items: []appsv1.Deployment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(2))}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
		}}},
		"/apis/apps/v1/statefulsets":           appsv1.StatefulSetList{TypeMeta: metav1.TypeMeta{Kind: "StatefulSetList", APIVersion: "apps/v1"}},
		"/api/v1/pods":                         corev1.PodList{TypeMeta: list("PodList"), Items: []corev1.Pod{network}},
		"/apis/policy/v1/poddisruptionbudgets": policyv1.PodDisruptionBudgetList{TypeMeta: metav1.TypeMeta{Kind: "PodDisruptionBudgetList", APIVersion: "policy/v1"}},
	}}
	server := httptest.NewUnstartedServer(c)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{a.server()}, ClientCAs: a.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	t.Cleanup(func() { session.Close() })
	s.forward["10.0.0.1:6443"] = server.Listener.Addr().String()
	return s, session, c
}

func adminConfText(ca, cert, key string) string {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://nowhere.invalid:6443", certificate-authority-data: %s}}]
users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]
`, encode(ca), encode(cert), encode(key))
}

// SSH is the only door: the API server is dialled through it, with credentials that it brought.
func TestObserveThroughSSHAlone(t *testing.T) {
	_, session, c := standCluster(t)
	f := session.Observe(t.Context())
	if f.Cluster.Err != nil || f.Hosts["cp-1"].Err != nil {
		t.Fatalf("cluster %v, host %v", f.Cluster.Err, f.Hosts["cp-1"].Err)
	}
	if h := f.Hosts["cp-1"]; h.NodeName != "node-a" || h.APIVersion != old {
		t.Errorf("host is %+v", h)
	}
	if n := f.Node("cp-1"); n.Name != "node-a" || n.Kubelet != old || !n.Ready {
		t.Errorf("node is %+v", n)
	}
	if d := cmp.Diff(map[string]Workload{"Deployment shop/web": {2, 2}}, f.Cluster.Workloads); d != "" {
		t.Errorf("workloads (-want +got):\n%s", d)
	}
	if p := f.Cluster.Etcd.Problems; len(p) == 0 || !strings.Contains(p[0], "cp-1") {
		t.Errorf("etcd's problems are %q, want that its member does not answer", p)
	}
	if d, known := f.Cluster.Drains["node-a"]; !known || d.Err != nil {
		t.Errorf("the drain would meet %+v", d)
	}
	if len(f.Artifacts.Problems) == 0 || f.Target != target {
		t.Errorf("artifacts %+v, target %s", f.Artifacts, f.Target)
	}

	// A lane reads its own host and the cluster again, and keeps what was read for the plan.
	c.put("/version", map[string]string{"gitVersion": target})
	c.put("/api/v1/nodes", corev1.NodeList{Items: []corev1.Node{*node("node-a", target, nil)}})
	again, err := session.ObserveTarget(t.Context(), "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	if again.Hosts["cp-1"].APIVersion != target || again.Node("cp-1").Kubelet != target {
		t.Errorf("host %+v, node %+v, want the new versions", again.Hosts["cp-1"], again.Node("cp-1"))
	}
	if d := cmp.Diff(map[string]bool{"node-a shop/net": true}, again.Cluster.Daemons); d != "" {
		t.Errorf("the DaemonSets that were Ready (-want +got):\n%s", d)
	}
	if d := cmp.Diff(f.Cluster.Workloads, again.Cluster.Workloads); d != "" || c.asked["/apis/apps/v1/deployments"] != 1 {
		t.Errorf("the photo was taken %d times, differs:\n%s", c.asked["/apis/apps/v1/deployments"], d)
	}
	if whole, err := session.ObserveTarget(t.Context(), wholeCluster); err != nil || whole.Hosts["cp-1"].APIVersion != target {
		t.Errorf("of the cluster: %v, %+v", err, whole.Hosts["cp-1"])
	}
}

func TestObserveWithoutAControlPlane(t *testing.T) {
	s := newStand(t)
	session := s.open(config.ControlPlane)
	session.Close() // nobody answers any more
	f := session.Observe(t.Context())
	if f.Hosts["cp-1"].Err == nil {
		t.Error("the host that cannot be asked has no error")
	}
	if want := "no control plane of the cluster file could be asked for its API server's address"; f.Cluster.Err == nil || f.Cluster.Err.Error() != want {
		t.Errorf("error is %v, want %s", f.Cluster.Err, want)
	}
	if left := session.Left(t.Context()); len(left) != 1 || left[0] != "the cluster could not be asked" {
		t.Errorf("left is %q", left)
	}
}

func TestCredentialsThatAreNone(t *testing.T) {
	tests := []struct {
		name, file, text, want string
	}{
		{"no admin.conf", "/etc/kubernetes/admin.conf", "", "cp-1: /etc/kubernetes/admin.conf: "},
		{"no kubeconfig", "/etc/kubernetes/admin.conf", "kind: [", "cp-1: /etc/kubernetes/admin.conf: "},
		{"no CA of etcd", "/etc/kubernetes/pki/etcd/ca.crt", "", "cp-1: /etc/kubernetes/pki/etcd/ca.crt: no certificate in it"},
		{"no key for etcd", "/etc/kubernetes/pki/etcd/healthcheck-client.key", "", "cp-1: /etc/kubernetes/pki/etcd/healthcheck-client: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, session, _ := standCluster(t)
			s.file(tt.file, tt.text)
			f := session.Observe(t.Context())
			if f.Cluster.Err == nil || !strings.HasPrefix(f.Cluster.Err.Error(), tt.want) {
				t.Errorf("error is %v, want %s", f.Cluster.Err, tt.want)
			}
		})
	}
}
