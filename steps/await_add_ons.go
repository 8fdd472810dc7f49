package steps

import (
	"context"
	"fmt"
	"net"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/engine"
)

// AwaitAddOns holds the way until kube-proxy and CoreDNS, which kubeadm moves with the last control
// plane and does not wait for, have rolled out and DNS answers. A cluster without one of them, as
// observed in planned, is not given one.
func AwaitAddOns(s *Session, planned Facts) engine.Step[Facts] {
	return step{
		Name: "await-add-ons",
		Does: "wait until kube-proxy and CoreDNS have rolled out everywhere and DNS answers",
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			var conditions []condition
			if planned.Cluster.ProxyImage != "" {
				conditions = append(conditions, s.proxyRolledOut(f.Target))
			}
			if planned.Cluster.CoreDNSImage != "" && planned.Cluster.CoreDNSReplicas > 0 {
				conditions = append(conditions, s.dnsRolledOut(wantedCoreDNS(f)), s.dnsAnswers())
			}
			return await(ctx, s.Cluster.Timeouts.Gate, s.settle(), log, all(conditions...))
		},
	}
}

func wantedCoreDNS(f Facts) string {
	if f.Cluster.DNSTag != "" {
		return f.Cluster.DNSTag
	}
	for _, h := range f.Hosts {
		if tag := f.Artifacts.Image(h.Arch, "coredns"); tag != "" {
			return tag
		}
	}
	return ""
}

func (s *Session) proxyRolledOut(target string) condition {
	return func(ctx context.Context) (string, error) {
		ds, err := s.api().AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read DaemonSet kube-proxy: %w", err)
		}
		return proxyProblem(ds, target), nil
	}
}

func proxyProblem(ds *appsv1.DaemonSet, target string) string {
	if tag := tagOf(firstImage(ds.Spec.Template.Spec)); tag != target {
		return fmt.Sprintf("kube-proxy is still %s: kubeadm moves it with the last control plane; "+
			"if it did not, run kubeadm upgrade node phase addon all on a control plane", tag)
	}
	return proxyRollout(ds)
}

// proxyRollout says what is missing until every node runs what the DaemonSet asks for.
func proxyRollout(ds *appsv1.DaemonSet) string {
	st := ds.Status
	switch want := st.DesiredNumberScheduled; {
	case st.ObservedGeneration < ds.Generation:
		return "the change of kube-proxy is not observed yet"
	case st.UpdatedNumberScheduled < want:
		return fmt.Sprintf("kube-proxy is new on %d of %d nodes", st.UpdatedNumberScheduled, want)
	case st.NumberAvailable < want || st.NumberReady < want:
		return fmt.Sprintf("kube-proxy is Ready on %d of %d nodes", min(st.NumberAvailable, st.NumberReady), want)
	}
	return ""
}

func (s *Session) dnsRolledOut(tag string) condition {
	return func(ctx context.Context) (string, error) {
		d, err := s.api().AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read Deployment coredns: %w", err)
		}
		return dnsProblem(d, tag), nil
	}
}

// dnsProblem says what is missing of a rollout to tag; "" stands for whatever tag is there.
func dnsProblem(d *appsv1.Deployment, tag string) string {
	if is := tagOf(firstImage(d.Spec.Template.Spec)); tag != "" && older(is, tag) {
		return "CoreDNS is still " + is
	}
	return dnsRollout(d)
}

// dnsRollout says what is missing until all replicas are new and available.
func dnsRollout(d *appsv1.Deployment) string {
	st, want := d.Status, *d.Spec.Replicas
	switch {
	case st.ObservedGeneration < d.Generation:
		return "the change of CoreDNS is not observed yet"
	case st.UpdatedReplicas < want || st.AvailableReplicas < want || st.Replicas > want:
		return fmt.Sprintf("CoreDNS: %d of %d replicas are new, %d available, %d in all",
			st.UpdatedReplicas, want, st.AvailableReplicas, st.Replicas)
	}
	return ""
}

// dnsAnswers holds when the cluster's DNS Service, asked from a control plane, resolves the API's name.
func (s *Session) dnsAnswers() condition {
	return func(ctx context.Context) (string, error) {
		svc, err := s.api().CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil // replaced by something of the site's own
		}
		if err != nil {
			return "", fmt.Errorf("read Service kube-dns: %w", err)
		}
		domain, err := s.clusterDomain(ctx)
		if err != nil {
			return "", err
		}
		name := "kubernetes.default.svc." + domain + "."
		host := controlPlanes(s.Cluster)[0].Name
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.dialHost(ctx, host, net.JoinHostPort(svc.Spec.ClusterIP, "53"))
		}}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := resolver.LookupHost(ctx, name); err != nil {
			return fmt.Sprintf("DNS does not answer for %s: %v", name, err), nil
		}
		return "", nil
	}
}
