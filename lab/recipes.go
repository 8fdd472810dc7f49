package main

import "strings"

const (
	kubernetesModule = "k8s.io/kubernetes"
	componentVersion = "k8s.io/component-base/version."
)

// kubernetesRecipe builds one Kubernetes version. Without the stamps kubeadm takes itself for v0.0.0 and refuses.
func kubernetesRecipe(version string) recipe {
	r := recipe{
		Name:    "kubernetes-" + version,
		Modules: []module{{kubernetesModule, version}},
		Stamp: map[string]string{
			componentVersion + "gitVersion":   version,
			componentVersion + "gitMajor":     "1",
			componentVersion + "gitMinor":     minor(version),
			componentVersion + "gitTreeState": "clean",
			componentVersion + "gitCommit":    strings.Repeat("0", 40),
			componentVersion + "buildDate":    "2026-01-01T00:00:00Z",
		},
	}
	for _, name := range []string{"kubeadm", "kubelet", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		r.Packages = append(r.Packages, kubernetesModule+"/cmd/"+name)
	}
	return r
}

// etcdRecipe builds the server and both tools, as the published image holds them. version has a leading v.
func etcdRecipe(version string) recipe {
	r := recipe{Name: "etcd-" + version, Rename: map[string]string{"server": "etcd"}}
	for _, folder := range []string{"server", "etcdctl", "etcdutl"} {
		path := "go.etcd.io/etcd/" + folder + "/v3"
		r.Modules = append(r.Modules, module{path, version})
		r.Packages = append(r.Packages, path)
	}
	return r
}

// coreDNSRecipe links only the plugins of the Corefile that kubeadm writes: the stock main adds the clients of several
// clouds and takes many times as long.
func coreDNSRecipe(version string) recipe {
	main, err := files.ReadFile("files/coredns.go.txt")
	if err != nil {
		panic(err) // embedded
	}
	return recipe{
		Name:     "coredns-" + version,
		Modules:  []module{{"github.com/coredns/coredns", version}},
		Packages: []string{"."},
		Main:     string(main),
		Rename:   map[string]string{buildModule: "coredns"},
	}
}

func crictlRecipe(version string) recipe {
	return recipe{
		Name:     "crictl-" + version,
		Modules:  []module{{"sigs.k8s.io/cri-tools", version}},
		Packages: []string{"sigs.k8s.io/cri-tools/cmd/crictl"},
		Stamp:    map[string]string{"sigs.k8s.io/cri-tools/pkg/version.Version": version},
	}
}

func containerdRecipe(version string) recipe {
	r := recipe{
		Name:    "containerd-" + version,
		Modules: []module{{"github.com/containerd/containerd/v2", version}},
		Tags:    "no_btrfs,no_devmapper,no_zfs",
		Stamp:   map[string]string{"github.com/containerd/containerd/v2/version.Version": version},
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		r.Packages = append(r.Packages, "github.com/containerd/containerd/v2/cmd/"+name)
	}
	return r
}
