package sim

import (
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// listen puts everything on a host that SSH's forwarding may lead to.
func (w *World) listen(h *host) error {
	cert, err := w.ca.issue(pkix.Name{CommonName: h.node}, h.address, "127.0.0.1")
	if err != nil {
		return err
	}
	if err := w.serve(h, h.address+":10250", cert, func() bool { return h.kubelet.version != "" }, kubeletAPI{h}); err != nil {
		return err
	}
	if !h.control {
		return nil
	}
	for component, address := range map[string]string{"kube-controller-manager": "127.0.0.1:10257", "kube-scheduler": "127.0.0.1:10259"} {
		ok := http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, "ok") })
		if err := w.serve(h, address, cert, func() bool { return h.runs(component) }, ok); err != nil {
			return err
		}
	}
	if err := w.serve(h, h.address+":6443", cert, func() bool { return h.runs("kube-apiserver") && !w.faults.apiDown(h) }, apiServer{h}); err != nil {
		return err
	}
	w.serveDNS(h)
	return w.serveEtcd(h, cert)
}

// port adds a place where something listens.
func (h *host) port(address string, open func() bool) *listener {
	l := newListener(address)
	h.ports[address] = &port{l: l, open: open, conns: map[net.Conn]bool{}}
	return l
}

func (w *World) serve(h *host, address string, cert issued, open func() bool, handler http.Handler) error {
	tls, err := w.ca.serving(cert)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, TLSConfig: tls, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	l := h.port(address, open)
	w.loops.Go(func() { _ = server.ServeTLS(l, "", "") }) // ends with the world
	w.loops.Go(func() {
		<-w.ctx.Done()
		server.Close()
	})
	return nil
}

func (w *World) serveEtcd(h *host, cert issued) error {
	tls, err := w.ca.serving(cert)
	if err != nil {
		return err
	}
	m := w.etcd.of(h)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(tls)))
	pb.RegisterMaintenanceServer(server, m)
	pb.RegisterClusterServer(server, m)
	l := h.port(h.address+":2379", func() bool {
		if !m.up() {
			m.told = time.Time{}
		}
		return m.up()
	})
	w.loops.Go(func() { _ = server.Serve(l) }) // ends with the world
	w.loops.Go(func() {
		<-w.ctx.Done()
		server.Stop()
	})
	return nil
}

// cutComponent ends the connections to a component of a control plane.
func (h *host) cutComponent(component string) {
	ports := map[string]string{
		"etcd": h.address + ":2379", "kube-apiserver": h.address + ":6443",
		"kube-controller-manager": "127.0.0.1:10257", "kube-scheduler": "127.0.0.1:10259",
	}
	if p := h.ports[ports[component]]; p != nil {
		p.cut()
	}
}

// kubeletAPI is what a kubelet tells of its pods.
type kubeletAPI struct{ h *host }

// ServeHTTP lists the static pods: those that the kubelet wants, not those that run.
func (k kubeletAPI) ServeHTTP(out http.ResponseWriter, _ *http.Request) {
	k.h.w.mu.Lock()
	defer k.h.w.mu.Unlock()
	var pods corev1.PodList
	for _, component := range components {
		if k.h.read(manifestFile(component)) == "" {
			continue
		}
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + k.h.node, UID: types.UID(k.h.staticUID(component)),
			Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		}})
	}
	text, _ := json.Marshal(pods) // plain data
	_, _ = out.Write(text)
}

// sandboxes is what `crictl pods --state ready -o json` prints.
func (h *host) sandboxes() string {
	items := []map[string]any{}
	for _, component := range components {
		pod := h.static[component]
		if pod == nil || pod.stopping {
			continue
		}
		items = append(items, map[string]any{"state": "SANDBOX_READY", "metadata": map[string]string{
			"name": component + "-" + h.node, "namespace": metav1.NamespaceSystem, "uid": pod.uid,
		}})
	}
	text, _ := json.Marshal(map[string]any{"items": items}) // plain data
	return fmt.Sprintln(string(text))
}
