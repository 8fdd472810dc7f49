package sim

import (
	"fmt"
	"regexp"
)

// components are the static pods of a control plane, in the order in which kubeadm moves them.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

const manifests = "/etc/kubernetes/manifests/"

func manifestFile(component string) string { return manifests + component + ".yaml" }

// image is what kubeadm of a version runs for a component.
func image(component, version string) string {
	if component == "etcd" {
		return registry + "etcd:" + releases[version].etcd
	}
	return registry + component + ":" + version
}

// flags are those arguments of a component that others read from its manifest.
func flags(h *host, component string) []string {
	switch component {
	case "etcd":
		return []string{"--advertise-client-urls=https://" + h.address + ":2379", "--name=" + h.node}
	case "kube-apiserver":
		return []string{"--advertise-address=" + h.address, "--secure-port=6443"}
	}
	return []string{"--bind-address=127.0.0.1", "--leader-elect=true"}
}

// manifest is a static pod as kubeadm of a version writes it.
func manifest(h *host, component, version string) string {
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: kube-system
  labels:
    component: %s
    tier: control-plane
spec:
  containers:
  - name: %s
    image: %s
    command:
    - %s
`, component, component, component, image(component, version), component)
	for _, f := range flags(h, component) {
		text += "    - " + f + "\n"
	}
	return text
}

var imageLine = regexp.MustCompile(`(?m)^    image: (.*)$`)

// imageIn is the image that a manifest names.
func imageIn(text string) string {
	if m := imageLine.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// kubeletConfig is the kubelet's configuration as kubeadm of a version writes it.
func kubeletConfig(version string) string {
	return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n# as of " + minor(version) + "\n"
}
