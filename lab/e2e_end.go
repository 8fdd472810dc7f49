package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ours is the prefix of everything that the tool writes into Kubernetes objects.
const ours = "kuberung.io/"

// wanted is the state that a finished run must have brought about, from sources other than the tool.
type wanted struct {
	version  string   // of Kubernetes, with its v
	etcd     string   // version without v, as kubeadm of that version asks for it
	coreDNS  string   // image tag, likewise
	members  int      // etcd members
	cordoned []string // nodes that somebody else had cordoned
	before   scene
}

// scene is what a run must leave as it found it.
type scene struct {
	Taints      map[string][]corev1.Taint // by node, without the one that a cordon sets
	KubeletAPIs map[string]string         // by host: the API server that its kubelet talks to
}

// scene reads what must be the same afterwards.
func (b *bed) scene(ctx context.Context) (scene, error) {
	s := scene{map[string][]corev1.Taint{}, map[string]string{}}
	nodes, err := b.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, err
	}
	for _, n := range nodes.Items {
		s.Taints[n.Name] = []corev1.Taint{}
		for _, t := range n.Spec.Taints {
			if t.Key != corev1.TaintNodeUnschedulable {
				s.Taints[n.Name] = append(s.Taints[n.Name], t)
			}
		}
	}
	for _, h := range b.nodes {
		server, err := b.sh(ctx, h, "grep -o 'server: .*' /etc/kubernetes/kubelet.conf")
		if err != nil {
			return s, err
		}
		s.KubeletAPIs[h.Name] = strings.TrimSpace(server)
	}
	return s, nil
}

// endState checks everything that must be true of the cluster after a run, and returns all that is not.
func (b *bed) endState(ctx context.Context, w wanted) error {
	checks := []struct {
		name string
		hold func(context.Context, wanted) error
	}{
		{"nodes", b.nodesMoved},
		{"control plane", b.componentsMoved},
		{"etcd", b.etcdMoved},
		{"CoreDNS", b.coreDNSMoved},
		{"kube-proxy", b.kubeProxyMoved},
		{"workloads", b.workloadsSettled},
		{"leftovers", b.nothingLeft},
	}
	var errs []error
	for _, check := range checks {
		// The tool says done when it is; what a check still waits for is its own view catching up.
		err := await(ctx, check.name, endLimit, func(ctx context.Context) error { return check.hold(ctx, w) })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// nodesMoved checks version, readiness and schedulability of every node.
func (b *bed) nodesMoved(ctx context.Context, w wanted) error {
	nodes, err := b.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	if len(nodes.Items) != len(b.nodes) {
		errs = append(errs, fmt.Errorf("%d nodes, want %d", len(nodes.Items), len(b.nodes)))
	}
	for _, n := range nodes.Items {
		if got := n.Status.NodeInfo.KubeletVersion; got != w.version {
			errs = append(errs, fmt.Errorf("%s runs kubelet %s, want %s", n.Name, got, w.version))
		}
		if !nodeReady(n) {
			errs = append(errs, fmt.Errorf("%s is not Ready", n.Name))
		}
		if want := slices.Contains(w.cordoned, n.Name); n.Spec.Unschedulable != want {
			errs = append(errs, fmt.Errorf("%s is unschedulable %v, want %v", n.Name, n.Spec.Unschedulable, want))
		}
	}
	return errors.Join(errs...)
}

// componentsMoved asks the three components of each control plane itself what they are.
func (b *bed) componentsMoved(ctx context.Context, w wanted) error {
	var errs []error
	for _, h := range b.controlPlanes() {
		for _, part := range []struct {
			name string
			port int
		}{{"kube-apiserver", 6443}, {"kube-controller-manager", 10257}, {"kube-scheduler", 10259}} {
			// Each has a certificate of its own making on the loopback address, hence no verification of it.
			out, err := b.sh(ctx, h, fmt.Sprintf("kubectl --kubeconfig /etc/kubernetes/admin.conf --insecure-skip-tls-verify "+
				"--server https://127.0.0.1:%d --request-timeout 5s get --raw /metrics | grep ^kubernetes_build_info", part.port))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s does not tell its version: %w", h.Name, part.name, err))
			} else if !strings.Contains(out, fmt.Sprintf("git_version=%q", w.version)) {
				errs = append(errs, fmt.Errorf("%s: %s is %s, want %s", h.Name, part.name, strings.TrimSpace(out), w.version))
			}
		}
	}
	return errors.Join(errs...)
}

// nothingLeft looks for marks, taints, detours and units of ours.
func (b *bed) nothingLeft(ctx context.Context, w wanted) error {
	nodes, err := b.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes.Items {
		for _, key := range slices.Sorted(maps.Keys(n.Annotations)) {
			if strings.HasPrefix(key, ours) {
				errs = append(errs, fmt.Errorf("%s still has the annotation %s=%s", n.Name, key, n.Annotations[key]))
			}
		}
	}
	after, err := b.scene(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if was, is := asText(w.before), asText(after); was != is {
		errs = append(errs, fmt.Errorf("taints or the kubelets' API servers were %s and are %s", was, is))
	}
	for _, h := range b.nodes {
		units, err := b.sh(ctx, h, "systemctl list-units --plain --no-legend --state=active,activating,deactivating 'kuberung*'")
		if err != nil {
			errs = append(errs, err)
		} else if units != "" {
			errs = append(errs, fmt.Errorf("%s still runs units of ours: %s", h.Name, strings.TrimSpace(units)))
		}
	}
	return errors.Join(errs...)
}

// asText writes plain data so that equal data are equal texts.
func asText(data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // only plain data is written
	}
	return string(text)
}
