package steps

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kuberung/kuberung/internal/config"
)

func TestAwaitWorkloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(2))}}
		s, client := withAPI(t, 1, 0, web)
		photo := seen(s.Cluster, old)
		photo.Cluster.Workloads = map[string]Workload{"Deployment shop/web": {2, 2}}
		time.AfterFunc(90*time.Second, func() {
			ready := web.DeepCopy()
			ready.Status.ReadyReplicas = 2
			if _, err := client.AppsV1().Deployments("shop").UpdateStatus(t.Context(), ready, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		var said []string
		began := time.Now()
		err := AwaitWorkloads(s, photo).Run(t.Context(), photo, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		if took := time.Since(began); err != nil || took < 95*time.Second || took > 97*time.Second {
			t.Errorf("error is %v after %v, want none after it came and settled", err, took)
		}
		if got := fmt.Sprint(said); got != "[waiting: Deployment shop/web has 0 of 2 replicas ready]" {
			t.Errorf("said %s", got)
		}
	})
}

func TestAwaitEndpointsEndsWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := map[string]string{"app": "web"}
		web := pod("web-1", "p1", true, app)
		web.Spec.NodeName = nodeName("w-1")
		s, client := withAPI(t, 1, 1, &web, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: app}})
		err := AwaitEndpoints(s, "w-1").Run(t.Context(), seen(s.Cluster, old), quiet)
		if want := "gave up after 10m0s: pod shop/web-1 is Ready, but Service web does not send to it yet"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		for _, resource := range []string{"services", "pods", "endpointslices"} {
			failing(client, "list", resource, 1)
			if missing, err := s.endpointsAgree("n")(t.Context()); err == nil {
				t.Errorf("without %s: %q and no error", resource, missing)
			}
		}
	})
}

// addOns are a kube-proxy and a CoreDNS that have rolled out in the target's versions.
func addOnObjects() (*appsv1.DaemonSet, *appsv1.Deployment) {
	proxy := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}}
	proxy.Spec.Template.Spec.Containers = []corev1.Container{{Image: "r/kube-proxy:" + target}}
	dns := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}, Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(2))}}
	dns.Spec.Template.Spec.Containers = []corev1.Container{{Image: "r/coredns:v1.14.0"}}
	dns.Status = appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
	return proxy, dns
}

// A cluster is given nothing that it did not have when the plan was made; what it had must be there.
func TestAwaitAddOns(t *testing.T) {
	proxy, dns := addOnObjects()
	oldProxy := proxy.DeepCopy()
	oldProxy.Spec.Template.Spec.Containers[0].Image = "r/kube-proxy:" + old
	tests := []struct {
		name    string
		client  *fake.Clientset
		planned func(*ClusterFacts)
		want    string
	}{
		{"both, and no Service of that name", fake.NewClientset(proxy, dns), func(*ClusterFacts) {}, ""},
		{"neither, nor before", fake.NewClientset(), func(f *ClusterFacts) { f.ProxyImage, f.CoreDNSImage = "", "" }, ""},
		{"CoreDNS scaled to none", fake.NewClientset(proxy), func(f *ClusterFacts) { f.CoreDNSReplicas = 0 }, ""},
		{"kube-proxy is old", fake.NewClientset(oldProxy, dns), func(*ClusterFacts) {}, "gave up after 10m0s: kube-proxy is still v1.35.4"},
		{"kube-proxy is gone", fake.NewClientset(dns), func(*ClusterFacts) {}, "gave up after 10m0s: read DaemonSet kube-proxy: "},
		{"CoreDNS is gone", fake.NewClientset(proxy), func(*ClusterFacts) {}, "gave up after 10m0s: read Deployment coredns: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := withAPI(t, 1, 0)
				s.client = tt.client
				f := seen(s.Cluster, old)
				planned := f
				tt.planned(&planned.Cluster)
				err := AwaitAddOns(s, planned).Run(t.Context(), f, quiet)
				if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("error is %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// nameServer answers for one name, over TCP, and for no other.
func nameServer(t *testing.T, known string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerNames(conn, known)
		}
	}()
	return l.Addr().String()
}

// answerNames speaks as much DNS as it takes: RFC 1035, 4.1 and 4.2.2.
func answerNames(conn net.Conn, known string) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		var labels []string
		end := 12
		for query[end] != 0 {
			labels = append(labels, string(query[end+1:end+1+int(query[end])]))
			end += 1 + int(query[end])
		}
		end += 5 // the root label, type and class
		reply := append([]byte{query[0], query[1], 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
		if name := strings.Join(labels, ".") + "."; name == known {
			reply[3] = 0x80
			if query[end-3] == 1 { // A
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 96, 0, 1)
			}
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// The cluster's own DNS Service is asked, from a control plane, for the API's name in the cluster's domain.
func TestDNSAnswers(t *testing.T) {
	s := newStand(t)
	session := s.open(config.ControlPlane)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.10"}}
	ask := func(configuration string) (string, error) {
		session.client = fake.NewClientset(service, kubeadmConfigMap("kubernetesVersion: v1.36.3\n"+configuration))
		return session.dnsAnswers()(t.Context())
	}
	s.forward["10.96.0.10:53"] = nameServer(t, "kubernetes.default.svc.cluster.local.")
	if missing, err := ask(""); missing != "" || err != nil {
		t.Errorf("got %q, %v, want an answer", missing, err)
	}
	missing, err := ask("networking:\n  dnsDomain: site.example\n")
	if want := "DNS does not answer for kubernetes.default.svc.site.example.: "; !strings.HasPrefix(missing, want) || err != nil {
		t.Errorf("got %q, %v, want %s", missing, err, want)
	}
	delete(s.forward, "10.96.0.10:53")
	if missing, err := ask(""); !strings.HasPrefix(missing, "DNS does not answer for ") || err != nil {
		t.Errorf("with nobody there got %q, %v", missing, err)
	}
	session.client = fake.NewClientset(service)
	if missing, err := session.dnsAnswers()(t.Context()); err == nil {
		t.Errorf("without a kubeadm-config got %q and no error", missing)
	}
}
