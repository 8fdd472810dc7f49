package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kuberung/kuberung/drain"
)

// A drain that fails gives the node back, unless its kubelet was already replaced.
func TestAFailedDrainGivesTheNodeBack(t *testing.T) {
	bare := func(node string) *corev1.Pod {
		p := pod("shell", "p1", true, nil)
		p.Spec.NodeName = node
		p.Status.Phase = corev1.PodRunning
		return &p
	}
	name := nodeName("w-1")
	cordoned := func(window string) *corev1.Node {
		return node(name, old, func(n *corev1.Node) {
			n.Spec.Unschedulable, n.Annotations = true, map[string]string{drain.WindowAnnotation: window}
		})
	}
	tests := []struct {
		name     string
		node     *corev1.Node
		change   func(Facts)
		cordoned bool
		window   string
		said     []string
		problem  string
	}{
		{"cordoned by us", cordoned(drain.Cordoned), func(Facts) {}, false, "", []string{"nothing was changed on " + name + "; it is uncordoned again"}, ""},
		{"cordoned before we came", cordoned(drain.FoundCordoned), func(Facts) {}, true, "", nil, ""},
		{"its kubelet was replaced", cordoned(drain.Cordoned), func(f Facts) {
			f.arrived("w-1")
			f.node("w-1", func(n *Node) { n.Kubelet = old })
		}, true, drain.Cordoned, nil, "; the node stays cordoned, for its kubelet was already replaced"},
		{"its kubelet was replaced, its kubectl not", cordoned(drain.Cordoned), func(f Facts) {
			f.host("w-1", func(h *Host) { h.binary("kubelet", target) })
		}, true, drain.Cordoned, nil, "; the node stays cordoned, for its kubelet was already replaced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, client := withAPI(t, 1, 1, tt.node, bare(name))
			f := seen(s.Cluster, old)
			tt.change(f)
			var said []string
			err := DrainNode(s, "w-1").Run(t.Context(), f, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
			if _, refused := errors.AsType[*drain.RefusedError](err); !refused || !strings.HasSuffix(err.Error(), tt.problem) {
				t.Errorf("error is %v, want that of a refused drain, ending in %q", err, tt.problem)
			}
			n, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n.Spec.Unschedulable != tt.cordoned || n.Annotations[drain.WindowAnnotation] != tt.window {
				t.Errorf("the node is cordoned: %v, window %q", n.Spec.Unschedulable, n.Annotations[drain.WindowAnnotation])
			}
			if d := cmp.Diff(tt.said, said); d != "" {
				t.Errorf("said (-want +got):\n%s", d)
			}
		})
	}
}

// Consents of the cluster file reach the drain, and its zero values delete nothing more.
func TestDrainOptions(t *testing.T) {
	s, _ := withAPI(t, 1, 0)
	if d := cmp.Diff(drain.Options{Timeout: time.Minute}, s.drainOptions(nil)); d != "" {
		t.Errorf("options (-want +got):\n%s", d)
	}
	s.Cluster.Drain.DeleteLocalData, s.Cluster.Drain.DeleteUnmanaged = []string{"a/b"}, []string{"*"}
	got := s.drainOptions(quiet)
	if got.Logf == nil || cmp.Diff(drain.Consent{"a/b"}, got.LocalData) != "" || cmp.Diff(drain.Consent{"*"}, got.Unmanaged) != "" {
		t.Errorf("options are %+v", got)
	}
}

// The steps speak to the API of the node that the certificate names.
func TestWindowOfANode(t *testing.T) {
	name := nodeName("w-1")
	s, client := withAPI(t, 1, 1, node(name, old, nil), node("w-1", old, nil))
	f := seen(s.Cluster, old)
	get := func() *corev1.Node {
		t.Helper()
		n, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := Cordon(s, "w-1").Run(t.Context(), f, quiet); err != nil {
		t.Fatal(err)
	}
	if n := get(); !n.Spec.Unschedulable || n.Annotations[drain.WindowAnnotation] != drain.Cordoned {
		t.Errorf("after cordon the node is %+v", n)
	}
	if err := Uncordon(s, "w-1").Run(t.Context(), f, quiet); err != nil {
		t.Fatal(err)
	}
	if n := get(); n.Spec.Unschedulable || n.Annotations[drain.WindowAnnotation] != "" {
		t.Errorf("after uncordon the node is %+v", n)
	}
}

func TestLeft(t *testing.T) {
	s, _ := withAPI(t, 1, 4, kubeadmConfigMap("kubernetesVersion: v1.36.3\n"),
		node(nodeName("cp-1"), target, nil),
		node(nodeName("w-1"), target, func(n *corev1.Node) {
			n.Spec.Unschedulable, n.Annotations = true, map[string]string{drain.WindowAnnotation: drain.Cordoned}
			n.Status.Conditions = nil
		}),
		node(nodeName("w-2"), old, func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node(nodeName("w-3"), old, nil),
		node(nodeName("w-4"), old, func(n *corev1.Node) {
			n.Spec.Unschedulable, n.Annotations = true, map[string]string{drain.WindowAnnotation: drain.FoundCordoned}
		}),
	)
	s.base = seen(s.Cluster, old)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a second Ctrl-C does not keep us from telling
	want := []string{
		"cp-1: kubelet v1.36.3",
		"w-1: kubelet v1.36.3, cordoned by kuberung and not released yet, not Ready",
		"w-2: kubelet v1.35.4, cordoned by somebody else",
		"w-3: kubelet v1.35.4",
		"w-4: kubelet v1.35.4, cordoned by somebody else",
	}
	if d := cmp.Diff(want, s.Left(ctx)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

func TestLeftWhenNobodyCanBeAsked(t *testing.T) {
	s, client := withAPI(t, 1, 0)
	failing(client, "list", "nodes", 1)
	want := []string{"what state the nodes are in could not be read: list nodes: etcdserver: leader changed"}
	if d := cmp.Diff(want, s.Left(t.Context())); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	s.client = nil
	if d := cmp.Diff([]string{"the cluster could not be asked"}, s.Left(t.Context())); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}
