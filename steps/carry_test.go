package steps

import (
	"os"
	"strings"
	"testing"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func TestFlags(t *testing.T) {
	const name = "pod-infra-container-image"
	for _, tt := range []struct {
		name, text  string
		value, left string
		found       bool
	}{
		{"as kubeadm writes it", `KUBELET_KUBEADM_ARGS="--a=b --pod-infra-container-image=r/pause:3.10 --c=d"` + "\n", "r/pause:3.10",
			`KUBELET_KUBEADM_ARGS="--a=b --c=d"` + "\n", true},
		{"alone", `KUBELET_KUBEADM_ARGS="--pod-infra-container-image=p"`, "p", `KUBELET_KUBEADM_ARGS=""`, true},
		{"with a space", `KUBELET_KUBEADM_ARGS="--pod-infra-container-image p --c"`, "p", `KUBELET_KUBEADM_ARGS="--c"`, true},
		{"without a value", `KUBELET_KUBEADM_ARGS="--pod-infra-container-image --c"`, "", `KUBELET_KUBEADM_ARGS="--c"`, true},
		{"twice: the last counts", `KUBELET_KUBEADM_ARGS=--pod-infra-container-image=a --pod-infra-container-image=b`, "b", `KUBELET_KUBEADM_ARGS=`, true},
		{"flags without a value stay as they are", `KUBELET_KUBEADM_ARGS="--foo --bar=x"`, "", `KUBELET_KUBEADM_ARGS="--foo --bar=x"`, false},
		{"one of a longer name", `KUBELET_KUBEADM_ARGS="--pod-infra-container-image-x=1"`, "", `KUBELET_KUBEADM_ARGS="--pod-infra-container-image-x=1"`, false},
		{"a value of that name", `KUBELET_KUBEADM_ARGS="--node-labels pod-infra-container-image=1"`, "", `KUBELET_KUBEADM_ARGS="--node-labels pod-infra-container-image=1"`, false},
		{"in another variable", "A=1\nKUBELET_KUBEADM_ARGS='--pod-infra-container-image=p --x'\n# end\n", "p", "A=1\nKUBELET_KUBEADM_ARGS='--x'\n# end\n", true},
		{"empty", "", "", "", false},
		{"no flags", `KUBELET_KUBEADM_ARGS=""`, "", `KUBELET_KUBEADM_ARGS=""`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if value, found := flagIn(tt.text, name); value != tt.value || found != tt.found {
				t.Errorf("found %q, %v, want %q, %v", value, found, tt.value, tt.found)
			}
			if left := withoutFlag(tt.text, name); left != tt.left {
				t.Errorf("left is %q, want %q", left, tt.left)
			}
		})
	}
}

func FuzzWithoutFlag(f *testing.F) {
	f.Add(oldFlags)
	f.Add(`KUBELET_KUBEADM_ARGS="--a --pod-infra-container-image x --pod-infra-container-image"`)
	f.Fuzz(func(t *testing.T, text string) {
		left := withoutFlag(text, "pod-infra-container-image")
		if _, there := flagIn(left, "pod-infra-container-image"); there {
			t.Errorf("%q keeps the flag: %q", text, left)
		}
		if again := withoutFlag(left, "pod-infra-container-image"); flagsOf(again) != flagsOf(left) {
			t.Errorf("%q loses more: %q", left, again)
		}
	})
}

// A change is carried when its minor is skipped, no sooner and no later, and the facts say that it is not made yet.
func TestNeedsCarry(t *testing.T) {
	pod := "--pod-infra-container-image is in kubeadm-flags.env, where v1.35 would have taken it out"
	socket := "--container-runtime-endpoint is in kubeadm-flags.env, where v1.36 would have taken it out"
	for _, tt := range []struct {
		kubelet, to string
		instance    bool
		want        string
	}{
		{"v1.34.4", "v1.35.4", false, ""}, // its own kubeadm does it
		{"v1.34.4", "v1.36.3", false, pod},
		{"v1.34.4", "v1.37.2", false, pod + ", " + socket},
		{"v1.34.4", "v1.37.2", true, pod},
		{"v1.35.4", "v1.36.3", false, ""},
		{"v1.35.4", "v1.37.2", false, socket},
		{"v1.36.3", "v1.37.2", false, ""},
		{"v1.37.2", "v1.37.2", false, ""},
		{"", "v1.37.2", false, ""},
	} {
		c := climber(1, 1, tt.to, "")
		f := seen(c, tt.to)
		f.withFlags(oldFlags)
		f.node("w-1", func(n *Node) { n.Kubelet = tt.kubelet })
		f.host("w-1", func(h *Host) { h.Instance = tt.instance })
		if got := needsCarry(f, "w-1"); got != tt.want {
			t.Errorf("from %s to %s, instance-config.yaml %v: %q, want %q", tt.kubelet, tt.to, tt.instance, got, tt.want)
		}
	}
}

// What a reader can look up is where it is said to be: a release, a file of kubeadm, a line.
func TestCarriedChangesHaveASource(t *testing.T) {
	for _, c := range carriedChanges {
		if c.minor < knownFrom || c.minor > knownTo || !strings.HasPrefix(c.source, "v1.") || !strings.Contains(c.source, " cmd/kubeadm/app/") || !strings.Contains(c.source, ".go:") {
			t.Errorf("%+v", c)
		}
	}
}

func TestCarryChanges(t *testing.T) {
	s := newStand(t)
	if err := os.MkdirAll(s.root+"/var/lib/kubelet", 0o755); err != nil {
		t.Fatal(err)
	}
	s.file("/var/lib/kubelet/kubeadm-flags.env", oldFlags)
	c := climber(1, 1, "v1.37.2", "")
	f := seen(c, "v1.37.2")
	f.withFlags(oldFlags)
	f.node("w-1", func(n *Node) { n.Kubelet = "v1.34.4" })
	session := s.open(config.Worker)
	step := CarryChanges(session, "w-1")
	if step.Needs(f) == "" {
		t.Fatal("nothing is needed")
	}
	if err := step.Run(t.Context(), f, t.Logf); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"/var/lib/kubelet/kubeadm-flags.env":                   "KUBELET_KUBEADM_ARGS=\"\"\n",
		"/var/lib/kubelet/instance-config.yaml":                "containerRuntimeEndpoint: \"unix:///run/x.sock\"\n",
		"/var/lib/kuberung/previous/v1.34.4/kubeadm-flags.env": oldFlags,
	} {
		got, err := os.ReadFile(s.root + file)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", file, got, err, want)
		}
	}
	f.host("w-1", func(h *Host) {
		h.Instance = true
		h.System.Units = map[string]hosts.SystemUnit{"kubelet.service": {Files: map[string]hosts.File{kubeadmFlags: {Text: "KUBELET_KUBEADM_ARGS=\"\"\n"}}}}
	})
	if why := step.Needs(f); why != "" {
		t.Errorf("still needed: %s", why)
	}
}
