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
	}{
		{"apply-everything.yaml", everything, true},
		{"node-everything.yaml", everything, false},
		{"apply-defaults.yaml", config.Kubeadm{CertificateRenewal: true}, true},
		{"node-without-renewal.yaml", config.Kubeadm{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got, err := kubeadmFile(tt.kubeadm, target, tt.apply)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "kubeadm/"+tt.file, string(got))
		})
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
