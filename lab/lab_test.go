package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// someLab is a lab of the shape called name, with all that bring-up finds out filled in.
func someLab(t *testing.T, name string) *lab {
	t.Helper()
	s, err := readSettings(func(key string) string { return map[string]string{"LAB": name, "KUBERUNG_LAB_CACHE": "/cache"}[key] })
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(s)
	l.preload = map[string]string{"pause": "registry.k8s.io/pause:3.10.1"}
	l.token, l.certificateKey, l.caCertHash = "abcdef.0123456789abcdef", "c0ffee", "sha256:beef"
	return l
}

// rendered is the template called name for the host called hostName, parsed, with one element for each document.
func rendered(t *testing.T, l *lab, name, hostName string) []map[string]any {
	t.Helper()
	var of host
	for _, h := range l.Shape.Hosts {
		if h.Name == hostName {
			of = h
		}
	}
	text, err := render(name, l.page(of))
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for _, document := range strings.Split(string(text), "\n---\n") {
		var parsed map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &parsed); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		all = append(all, parsed)
	}
	return all
}

func TestClusterFileNamesTheNodesByInventory(t *testing.T) {
	file := rendered(t, someLab(t, "ha"), "cluster.yaml", "")[0]
	wantHosts := []any{
		map[string]any{"name": "cp-1", "address": "10.78.0.11", "role": "control-plane"},
		map[string]any{"name": "cp-2", "address": "10.78.0.12", "role": "control-plane"},
		map[string]any{"name": "cp-3", "address": "10.78.0.13", "role": "control-plane"},
		map[string]any{"name": "worker-1", "address": "10.78.0.21", "role": "worker"},
		map[string]any{"name": "worker-2", "address": "10.78.0.22", "role": "worker"},
	}
	if diff := cmp.Diff(wantHosts, file["hosts"]); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	wantSSH := map[string]any{"user": "ops", "key": "/cache/lab/ha/id_ed25519", "knownHosts": "/cache/lab/ha/known_hosts", "sudo": true}
	if diff := cmp.Diff(wantSSH, file["ssh"]); diff != "" {
		t.Errorf("ssh (-want +got):\n%s", diff)
	}
	if file["target"] != "v1.36.3" || file["artifacts"] != "/cache/artifacts" {
		t.Errorf("target %v from %v, want v1.36.3 from /cache/artifacts", file["target"], file["artifacts"])
	}
}

func TestInitConfiguration(t *testing.T) {
	for name, wantTaints := range map[string]any{"small": []any{}, "ha": nil} { // nil: kubeadm's own taint
		documents := rendered(t, someLab(t, name), "init.yaml", "cp-1")
		var kinds []any
		for _, d := range documents {
			kinds = append(kinds, d["kind"])
		}
		want := []any{"InitConfiguration", "ClusterConfiguration", "KubeletConfiguration", "KubeProxyConfiguration"}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Fatalf("%s: kinds (-want +got):\n%s", name, diff)
		}
		registration := documents[0]["nodeRegistration"].(map[string]any)
		if diff := cmp.Diff(wantTaints, registration["taints"]); diff != "" {
			t.Errorf("%s: taints (-want +got):\n%s", name, diff)
		}
		if registration["name"] != "cp-1" {
			t.Errorf("%s: the node is called %v, want cp-1", name, registration["name"])
		}
		if documents[1]["kubernetesVersion"] != "v1.35.4" {
			t.Errorf("%s: version %v, want v1.35.4", name, documents[1]["kubernetesVersion"])
		}
	}
}

func TestKubeletConfigurationFitsTheControlGroups(t *testing.T) {
	for _, v1 := range []bool{true, false} {
		l := someLab(t, "small")
		l.cgroupV1 = v1
		kubelet := rendered(t, l, "init.yaml", "cp-1")[2]
		wantDriver, wantFail := any("systemd"), any(nil)
		if v1 {
			wantDriver, wantFail = "cgroupfs", false
		}
		if kubelet["cgroupDriver"] != wantDriver || kubelet["failCgroupV1"] != wantFail {
			t.Errorf("cgroup v1 %v: driver %v, failCgroupV1 %v", v1, kubelet["cgroupDriver"], kubelet["failCgroupV1"])
		}
	}
}

func TestOnlyControlPlanesJoinAsOne(t *testing.T) {
	l := someLab(t, "ha")
	if _, there := rendered(t, l, "join.yaml", "cp-2")[0]["controlPlane"]; !there {
		t.Error("cp-2 would join as a worker")
	}
	join := rendered(t, l, "join.yaml", "worker-1")[0]
	if _, there := join["controlPlane"]; there {
		t.Error("worker-1 would join as a control plane")
	}
	if name := join["nodeRegistration"].(map[string]any)["name"]; name != "node-w1" {
		t.Errorf("worker-1 would be the node %v, want node-w1", name)
	}
}

func TestLoadBalancerChecksEveryControlPlane(t *testing.T) {
	l := someLab(t, "ha")
	text, err := render("haproxy.cfg", l.page(host{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"option httpchk GET /readyz\n", "server cp-1 10.78.0.11:6443\n", "server cp-2 10.78.0.12:6443\n", "server cp-3 10.78.0.13:6443\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
