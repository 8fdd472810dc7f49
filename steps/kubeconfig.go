package steps

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// outside is the API server that the operator's kubeconfig names, reached from here as kubectl does it: with that
// file's credentials, and the proxy of the environment. It takes no part in proofs about one control plane, for who
// answers behind it is not known.
type outside struct {
	file      string
	base      *url.URL
	transport http.RoundTripper
	client    kubernetes.Interface
	ca        []byte // what the cluster's own hosts trust, PEM

	mu     sync.Mutex
	proven bool
}

// openKubeconfig reads a kubeconfig. ca is that of the cluster which its server must belong to.
func openKubeconfig(file string, ca []byte) (*outside, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	cfg.UserAgent = userAgent
	o := &outside{file: file, ca: ca}
	if o.base, _, err = rest.DefaultServerUrlFor(cfg); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	if o.transport, err = rest.TransportFor(cfg); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	if o.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	return o, nil
}

// endpoint is its place among the API servers.
func (o *outside) endpoint() endpoint { return endpoint{address: o.file} }

// RoundTrip implements http.RoundTripper, for requests of a path on any server.
func (o *outside) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := o.prove(req.Context()); err != nil {
		return nil, &dialError{fmt.Errorf("kubeconfig %s: %w", o.file, err)}
	}
	there := req.Clone(req.Context())
	there.URL.Scheme, there.URL.Host, there.Host = o.base.Scheme, o.base.Host, ""
	there.URL.Path, there.URL.RawPath = strings.TrimSuffix(o.base.Path, "/")+req.URL.Path, ""
	response, err := o.transport.RoundTrip(there)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.file, err)
	}
	return response, nil
}

// prove makes sure, once, that the server is of the cluster whose hosts we are about to change. Every cluster publishes
// the CA that its own admin.conf trusts.
func (o *outside) prove(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.proven {
		return nil
	}
	published, err := o.client.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("whether its server is of this cluster: %w", err)
	}
	if !shareCertificate(o.ca, []byte(published.Data["ca.crt"])) {
		return errors.New("its server is of another cluster: that one publishes another CA than the admin.conf of the hosts has")
	}
	o.proven = true
	return nil
}

// shareCertificate reports whether two PEM texts have a certificate in common.
func shareCertificate(a, b []byte) bool {
	known := certificatesIn(a)
	for cert := range certificatesIn(b) {
		if known[cert] {
			return true
		}
	}
	return false
}

func certificatesIn(text []byte) map[string]bool {
	found := map[string]bool{}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return found
		}
		found[string(block.Bytes)] = true
	}
}
