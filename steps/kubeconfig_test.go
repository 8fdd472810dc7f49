package steps

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// kubeAPI is an API server behind a proxy with a path of its own, the kubeconfig that leads there, and the CA of its
// cluster, which is not that of the proxy.
type kubeAPI struct {
	*httptest.Server
	ca   *authority
	file string

	mu    sync.Mutex
	asked []string
}

func newKubeAPI(t *testing.T) *kubeAPI {
	t.Helper()
	k := &kubeAPI{ca: newAuthority(t), file: filepath.Join(t.TempDir(), "kubeconfig")}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(k.answer))
	k.Config.ErrorLog = log.New(io.Discard, "", 0)
	k.StartTLS()
	t.Cleanup(func() { k.CloseClientConnections(); k.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw})
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: me}}]
clusters: [{name: it, cluster: {server: "%s/k8s/clusters/it", certificate-authority-data: %s}}]
users: [{name: me, user: {token: opensesame}}]
`, k.URL, base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(k.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return k
}

const rootCA = "GET /k8s/clusters/it/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"

func (k *kubeAPI) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
	k.asked = append(k.asked, asked)
	var object runtime.Object = &corev1.NodeList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
		Items:    []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "by-kubeconfig"}}},
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer opensesame":
		w.WriteHeader(http.StatusUnauthorized)
		return
	case asked == rootCA:
		object = &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			Data:     map[string]string{"ca.crt": string(newAuthority(k.ca.t).pem()) + string(k.ca.pem())},
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// told gives what was asked, and forgets it.
func (k *kubeAPI) told() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := k.asked
	k.asked = nil
	return asked
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// lockKey gives a private key a passphrase, in another file.
func lockKey(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
}

// outsideOf gives a failover between hosts a and b, both of them down, that also has a kubeconfig.
func (k *kubeAPI) outsideOf(t *testing.T, ca *authority) (*failover, *fleet) {
	t.Helper()
	f := newFleet(t)
	o := f.failover(t, map[string]answer{"a": says(200, "a"), "b": says(200, "b")})
	var err error
	if o.outside, err = openKubeconfig(k.file, ca.pem()); err != nil {
		t.Fatal(err)
	}
	o.setEndpoints(o.endpoints)
	f.set(f.down, "a", true)
	f.set(f.down, "b", true)
	return o, f
}

// The kubeconfig's server is asked when no host's is to be had, with its own path and credentials; a write too, for
// nobody has seen it. Whoever answered is asked first the next time.
func TestKubeconfig(t *testing.T) {
	k := newKubeAPI(t)
	o, f := k.outsideOf(t, k.ca)
	for _, tt := range []struct{ method, body, want string }{
		{"GET", "", "GET /k8s/clusters/it/api?limit=1"},
		{"POST", "{}", "POST /k8s/clusters/it/api?limit=1 {}"},
	} {
		if got, err := ask(t, o, tt.method, tt.body); err != nil || !strings.Contains(got, "by-kubeconfig") {
			t.Fatalf("%s: got %q, %v", tt.method, got, err)
		}
		asked := k.told()
		if tt.method == "GET" {
			asked = asked[1:] // that it is the right cluster is asked once
		}
		if d := cmp.Diff([]string{tt.want}, asked); d != "" {
			t.Errorf("it was asked (-want +got):\n%s", d)
		}
	}
	k.CloseClientConnections()
	k.Close()
	f.set(f.down, "a", false)
	if got, err := ask(t, o, "GET", ""); got != "200 OK: a" || err != nil {
		t.Errorf("got %q, %v, want a's answer", got, err)
	}
}

// As long as a host's API server answers, nothing goes past the hosts.
func TestKubeconfigComesLast(t *testing.T) {
	k := newKubeAPI(t)
	o, f := k.outsideOf(t, k.ca)
	f.set(f.down, "b", false)
	if got, err := ask(t, o, "GET", ""); got != "200 OK: b" || err != nil {
		t.Errorf("got %q, %v, want b's answer", got, err)
	}
	if asked := k.told(); len(asked) > 0 {
		t.Errorf("it was asked %q", asked)
	}
}

// A kubeconfig of another cluster is no way to this one: reading there, a run would drain and upgrade by the wrong facts.
func TestKubeconfigOfAnotherCluster(t *testing.T) {
	k := newKubeAPI(t)
	o, _ := k.outsideOf(t, newAuthority(t))
	for _, method := range []string{"GET", "POST"} {
		_, err := ask(t, o, method, "")
		if err == nil || !strings.Contains(err.Error(), "its server is of another cluster") {
			t.Errorf("%s: error is %v", method, err)
		}
	}
	if d := cmp.Diff([]string{rootCA, rootCA}, k.told()); d != "" {
		t.Errorf("it was asked (-want +got):\n%s", d)
	}
}

func TestKubeconfigThatIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	for name, text := range map[string]string{
		"not YAML": "{", "empty": "", "no such context": "apiVersion: v1\nkind: Config\ncurrent-context: gone\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if o, err := openKubeconfig(file, nil); err == nil || !strings.HasPrefix(err.Error(), "kubeconfig "+file+": ") {
			t.Errorf("%s: got %v, %v, want an error that names the file", name, o, err)
		}
	}
}
