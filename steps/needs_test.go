package steps

import (
	"testing"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
)

// Each row is what one need says of a cluster that has arrived but for one thing.
func TestNeeds(t *testing.T) {
	apply, node := applyUnit(target), nodeUnit(target)
	tests := []struct {
		name   string
		need   func(Facts, string) string
		host   string
		change func(Facts)
		want   string
	}{
		{"control plane is done", needsControlPlane, "cp-1", func(Facts) {}, ""},
		{"one manifest is old", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.Manifests["kube-scheduler"] = manifest("kube-scheduler", old) })
		}, "kube-scheduler is v1.35.4"},
		{"an image goes by its digest", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) {
				h.Manifests["kube-scheduler"] = Manifest{Image: "registry:5000/kube-scheduler@sha256:abc"}
			})
		}, "kube-scheduler is of unknown version"},
		{"an image has tag and digest", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) {
				h.Manifests["kube-scheduler"] = Manifest{Image: "registry:5000/kube-scheduler:" + target + "@sha256:abc"}
			})
		}, ""},
		{"manifests are new, the API server is not", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.APIVersion = old })
		}, "its API server answers v1.35.4"},
		{"the API server does not say", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.APIVersion = "" })
		}, "its API server does not answer"},
		{"etcd is old", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.Manifests["etcd"] = manifest("etcd", old) })
		}, "etcd is 3.6.6-0"},
		{"etcd is newer than kubeadm's", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.Manifests["etcd"] = Manifest{Image: "etcd:3.7.0-0"} })
		}, ""},
		{"a manifest was moved away", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { delete(h.Manifests, "kube-apiserver") })
		}, "the manifest of kube-apiserver is missing"},
		{"kubeadm was cut off", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.Kubeadm[apply] = hosts.Record{State: hosts.Interrupted} })
		}, "unit kubeadm-apply-v1.36.3 was cut off before its end"},
		{"the host rebooted under kubeadm", needsControlPlane, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.Kubeadm[apply] = hosts.Record{State: hosts.Interrupted, Rebooted: true} })
		}, "unit kubeadm-apply-v1.36.3 was cut off by a reboot of the host"},
		{"kubeadm failed although all is new", needsControlPlane, "cp-2", func(f Facts) {
			f.host("cp-2", func(h *Host) { h.Kubeadm[node] = hosts.Record{State: hosts.Exited, Code: 3} })
		}, "unit kubeadm-node-v1.36.3 ended with exit status 3"},
		{"kubeadm runs on a control plane", needsControlPlane, "cp-2", func(f Facts) {
			f.host("cp-2", func(h *Host) { h.Kubeadm[node] = hosts.Record{State: hosts.Running} })
		}, "unit kubeadm-node-v1.36.3 is running"},
		{"kubeadm failed on the way to another version", needsControlPlane, "cp-2", func(f Facts) {
			f.host("cp-2", func(h *Host) { h.Kubeadm[nodeUnit(old)] = hosts.Record{State: hosts.Interrupted} })
		}, ""},

		{"apply is done", needsApply, "cp-1", func(Facts) {}, ""},
		{"a control plane that is not done is not applied", needsApply, "cp-1", func(f Facts) {
			f.host("cp-1", func(h *Host) { h.Manifests["etcd"] = manifest("etcd", old) })
		}, "etcd is 3.6.6-0"},

		{"a worker's configuration is done", needsNodeConfig, "w-1", func(Facts) {}, ""},
		{"the worker's kubelet is old", needsNodeConfig, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.binary("kubelet", old) })
			f.node("w-1", func(n *Node) { n.Kubelet = old })
		}, "the kubelet's configuration is not of v1.36.3 yet"},
		{"the worker's kubelet is old, its configuration new", needsNodeConfig, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.Kubeadm[node] = hosts.Record{State: hosts.Exited}; h.binary("kubelet", old) })
			f.node("w-1", func(n *Node) { n.Kubelet = old })
		}, ""},
		{"kubeadm failed on a worker", needsNodeConfig, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.Kubeadm[node] = hosts.Record{State: hosts.Exited, Code: 1} })
		}, "unit kubeadm-node-v1.36.3 ended with exit status 1"},

		{"kubelet is done", needsKubelet, "w-1", func(Facts) {}, ""},
		{"a kubelet that does not say its version", needsKubelet, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.binary("kubelet", "") })
		}, "kubelet is of unknown version"},
		{"an old kubectl alone", needsKubelet, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.binary("kubectl", old) })
		}, ""},
		{"an old kubectl, the kubelet not restarted", needsKubelet, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.binary("kubectl", old) })
			f.node("w-1", func(n *Node) { n.Kubelet = old })
		}, "kubectl is v1.35.4"},
		{"no kubectl is no need", needsKubelet, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { delete(h.Binaries, "kubectl") })
			f.node("w-1", func(n *Node) { n.Kubelet = old })
		}, ""},

		{"an old kubectl, and no other to be had", func(f Facts, host string) string {
			f.Artifacts = Artifacts{}
			return needsKubelet(f, host)
		}, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.binary("kubectl", old) })
			f.node("w-1", func(n *Node) { n.Kubelet = old })
		}, ""},
		{"restart is done", needsRestart, "w-1", func(Facts) {}, ""},
		{"replaced and not restarted", needsRestart, "w-1", func(f Facts) {
			f.node("w-1", func(n *Node) { n.Kubelet = old })
		}, "the running kubelet is v1.35.4"},
		{"the node is not known", needsRestart, "w-1", func(f Facts) {
			delete(f.Cluster.Nodes, nodeName("w-1"))
		}, "the running kubelet is of unknown version"},

		{"a schedulable node", needsCordon, "w-1", func(Facts) {}, "it takes new pods"},
		{"cordoned by us", needsCordon, "w-1", func(f Facts) { f.opened("w-1") }, ""},
		{"cordoned by somebody else", needsCordon, "w-1", func(f Facts) {
			f.node("w-1", func(n *Node) { n.Cordoned = true })
		}, "it was cordoned by somebody else and stays so; this is noted on the node"},
		{"cordoned by somebody else, noted", needsCordon, "w-1", func(f Facts) {
			f.node("w-1", func(n *Node) { n.Cordoned, n.Window = true, drain.FoundCordoned })
		}, ""},
		{"noted but not cordoned yet", needsCordon, "w-1", func(f Facts) {
			f.node("w-1", func(n *Node) { n.Window = drain.Cordoned })
		}, "it takes new pods"},

		{"no window", needsRelease, "w-1", func(Facts) {}, ""},
		{"a window of ours", needsRelease, "w-1", func(f Facts) { f.opened("w-1") }, "kuberung opened a window on it: cordoned"},
		{"a window on a node that was cordoned", needsRelease, "w-1", func(f Facts) {
			f.node("w-1", func(n *Node) { n.Cordoned, n.Window = true, drain.FoundCordoned })
		}, "kuberung opened a window on it: found-cordoned"},
		{"cordoned by somebody else is not ours", needsRelease, "w-1", func(f Facts) {
			f.node("w-1", func(n *Node) { n.Cordoned = true })
		}, ""},

		{"nothing is staged", needsStaging, "w-1", func(Facts) {}, "4 programs (200 MiB) are not on it"},
		{"everything is staged", needsStaging, "w-1", func(f Facts) { f.staged("w-1") }, ""},
		{"one file is missing", needsStaging, "w-1", func(f Facts) {
			f.staged("w-1")
			kubelet, _ := f.Artifacts.Binary("amd64", "kubelet")
			f.host("w-1", func(h *Host) { delete(h.Staged, kubelet.stagedAt(target)) })
		}, "1 programs (50 MiB) are not on it"},
		{"another architecture has nothing", needsStaging, "w-1", func(f Facts) {
			f.host("w-1", func(h *Host) { h.Arch = "arm64" })
		}, ""},
		{"no image is there", needsImages, "cp-1", func(Facts) {}, "7 images (161 MiB) are not on it"},
		{"a worker needs fewer", needsImages, "w-1", func(Facts) {}, "3 images (51 MiB) are not on it"},
		{"all images are there", needsImages, "w-1", func(f Facts) { f.staged("w-1") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := seen(cluster(2, 1), target)
			tt.change(f)
			if got := tt.need(f, tt.host); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A control plane with new manifests and an old kubeadm-config still needs apply: it writes that last.
func TestApplyIsNotDoneBeforeKubeadmConfig(t *testing.T) {
	c := cluster(2, 0)
	f := seen(c, target)
	f.Cluster.KubeadmVersion = old
	if got, want := needsApply(f, "cp-1"), "kubeadm-config says v1.35.4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := applyHost(c, f); got != "cp-1" {
		t.Errorf("apply runs on %q, want cp-1", got)
	}
	p := Plan(c, f, nil)
	if got := p[len(p)-2]; got.Name != "control plane" || len(got.Lanes) != 1 || got.Lanes[0].Target != "cp-1" {
		t.Errorf("the plan is\n%s", render(p.Outline(f)))
	}
}

func TestApplyHost(t *testing.T) {
	c := cluster(3, 0)
	tests := []struct {
		name   string
		change func(*Facts)
		want   string
	}{
		{"nothing has begun", func(*Facts) {}, "cp-1"},
		{"the first one has arrived by other means", func(f *Facts) { f.moved("cp-1", nodeUnit(target)) }, "cp-2"},
		{"the configuration says the target", func(f *Facts) { f.Cluster.KubeadmVersion = target }, ""},
		{"it came to its end", func(f *Facts) { f.moved("cp-2", applyUnit(target)); f.Cluster.KubeadmVersion = target }, ""},
		{"a node run that failed is none of apply's", func(f *Facts) {
			f.Cluster.KubeadmVersion = target
			f.host("cp-3", func(h *Host) { h.Kubeadm[nodeUnit(target)] = hosts.Record{State: hosts.Interrupted} })
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := seen(c, old)
			tt.change(&f)
			if got := applyHost(c, f); got != tt.want {
				t.Errorf("apply runs on %q, want %q", got, tt.want)
			}
		})
	}
}

// kubeadm is only replaced where it has something to do.
func TestNeedsKubeadm(t *testing.T) {
	f := seen(cluster(1, 1), old)
	for todo, want := range map[string]string{"": "", "etcd is old": "kubeadm is v1.35.4"} {
		if got := needsKubeadm(f, "w-1", todo); got != want {
			t.Errorf("with todo %q got %q, want %q", todo, got, want)
		}
	}
}

// A tag that the operator has pinned is where kubeadm goes, and no further.
func TestEtcdGoesToThePinnedTag(t *testing.T) {
	f := seen(cluster(1, 0), target)
	f.host("cp-1", func(h *Host) { h.Manifests["etcd"] = Manifest{Image: "etcd:3.6.6-0"} })
	for pinned, want := range map[string]string{"": "etcd is 3.6.6-0", "3.6.6-0": "", "3.6.7-0": "etcd is 3.6.6-0", "3.5.9-0": ""} {
		f.Cluster.EtcdTag = pinned
		if got := needsControlPlane(f, "cp-1"); got != want {
			t.Errorf("pinned to %q: got %q, want %q", pinned, got, want)
		}
	}
}

func TestMebibytes(t *testing.T) {
	for size, want := range map[int64]string{0: "0 MiB", 1: "1 MiB", 1 << 20: "1 MiB", 1<<20 + 1: "2 MiB", 5 << 30: "5120 MiB"} {
		if got := mebibytes(size); got != want {
			t.Errorf("%d bytes are %s, want %s", size, got, want)
		}
	}
}
