package steps

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/internal/config"
)

func TestKubeadmFile(t *testing.T) {
	everything := config.Kubeadm{
		IgnorePreflightErrors: []string{"Swap", "NumCPU"}, Patches: "/etc/kubernetes/patches", CertificateRenewal: true,
		Timeouts: config.KubeadmTimeouts{UpgradeManifests: 10 * time.Minute, EtcdAPICall: 3 * time.Minute, KubernetesAPICall: 90 * time.Second},
	}
	tests := []struct {
		file    string
		kubeadm config.Kubeadm
		apply   bool
		skip    []string
	}{
		{"apply-everything.yaml", everything, true, []string{"addon/kube-proxy", "addon/coredns"}},
		{"node-everything.yaml", everything, false, []string{"addon/coredns"}},
		{"apply-defaults.yaml", config.Kubeadm{CertificateRenewal: true}, true, nil},
		{"node-without-renewal.yaml", config.Kubeadm{}, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got, err := kubeadmFile(tt.kubeadm, target, tt.apply, tt.skip)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "kubeadm/"+tt.file, string(got))
		})
	}
}

// kubeadm would bring back what a site has removed; only a control plane's has phases for that.
func TestAbsentAddOns(t *testing.T) {
	tests := []struct {
		host, proxy, dns, want string
	}{
		{"cp-1", "kube-proxy:1", "coredns:1", "[]"},
		{"cp-1", "", "coredns:1", "[addon/kube-proxy]"},
		{"cp-1", "kube-proxy:1", "", "[addon/coredns]"},
		{"cp-1", "", "", "[addon/kube-proxy addon/coredns]"},
		{"w-1", "", "", "[]"},
	}
	for _, tt := range tests {
		f := seen(cluster(1, 1), old)
		f.Cluster.ProxyImage, f.Cluster.CoreDNSImage = tt.proxy, tt.dns
		if got := fmt.Sprint(absentAddOns(f, tt.host)); got != tt.want {
			t.Errorf("%s with %q and %q: got %s, want %s", tt.host, tt.proxy, tt.dns, got, tt.want)
		}
	}
}

func TestKubeadmLines(t *testing.T) {
	var got []string
	line := kubeadmLines(func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) })
	for _, text := range []string{
		"[upgrade] Running 100% of checks  ",
		"",
		"   ",
		"\x1b[0;37mKERNEL_VERSION\x1b[0m: \x1b[0;32m6.8.0\x1b[0m",
		"OS: Linux",
		"CONFIG_CGROUP_BPF: enabled (as module)",
		"CGROUPS_CPU: enabled",
		"\t[WARNING SystemVerification]: kernel 3.10 is old",
		"[upgrade/etcd] OSS: not that",
		"\x1b[0m",
	} {
		line(text)
	}
	want := []string{
		"[upgrade] Running 100% of checks",
		"\t[WARNING SystemVerification]: kernel 3.10 is old",
		"[upgrade/etcd] OSS: not that",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

func TestKubeadmUnits(t *testing.T) {
	if d := cmp.Diff([]string{"kubeadm-apply-v1.36.3", "kubeadm-node-v1.36.3"}, kubeadmUnits(config.ControlPlane, target)); d != "" {
		t.Errorf("of a control plane (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"kubeadm-node-v1.36.3"}, kubeadmUnits(config.Worker, target)); d != "" {
		t.Errorf("of a worker (-want +got):\n%s", d)
	}
}
