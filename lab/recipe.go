package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed files
var files embed.FS

// embedded returns the contents of files by path: part of the recipe of everything made from them.
func embedded() (map[string]string, error) {
	all := map[string]string{}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		all[path] = string(text)
		return err
	})
	return all, err
}

// recipe says how Go modules become static binaries.
type recipe struct {
	Name     string   // of the folder in the cache
	Modules  []module // what to require; the first one's go.mod and go.sum seed the build
	Packages []string // the main packages; "." is Main
	Main     string   // source of a main package of ours, for modules whose own one links too much
	Tags     string
	Stamp    map[string]string // values of string variables, set by the linker
	Rename   map[string]string // binaries whose name is not the last element of their package's path
}

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

// ldflags is the linker's argument for the stamps, in a fixed order.
func (r recipe) ldflags() string {
	words := []string{"-s", "-w"}
	for _, name := range slices.Sorted(maps.Keys(r.Stamp)) {
		words = append(words, "-X "+name+"="+r.Stamp[name])
	}
	return strings.Join(words, " ")
}

// build returns the folder with r's binaries, building them if the cache does not hold them.
func (r recipe) build(ctx context.Context, c cache) (string, error) {
	return c.product(filepath.Join("bin", r.Name+"-"+digest(r)), func(tmp string) error {
		say("building %s", r.Name)
		source, err := os.MkdirTemp("", "kuberung-lab-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(source)
		if err := r.writeSource(ctx, source); err != nil {
			return err
		}
		if err := os.MkdirAll(tmp, 0o755); err != nil {
			return err
		}
		argv := []string{"go", "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-tags", r.Tags, "-ldflags", r.ldflags(), "-o", tmp + "/"}
		_, err = command{
			Argv:  append(argv, r.Packages...),
			Dir:   source,
			Env:   []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"},
			Log:   filepath.Join(c.dir, "logs", r.Name+".log"),
			Limit: time.Hour,
		}.run(ctx)
		if err != nil {
			return err
		}
		for built, name := range r.Rename {
			if err := os.Rename(filepath.Join(tmp, built), filepath.Join(tmp, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeSource writes the throw-away module of r into dir.
func (r recipe) writeSource(ctx context.Context, dir string) error {
	var base string
	for _, m := range r.Modules { // all of them: -mod=mod does not download a second module's go.sum lines by itself
		path, err := download(ctx, m)
		if err != nil {
			return err
		}
		if base == "" {
			base = path
		}
	}
	modFile, err := os.ReadFile(filepath.Join(base, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(base, "go.sum"))
	if err != nil {
		return err
	}
	written := map[string]string{"go.mod": goMod(string(modFile), r.Modules), "go.sum": string(sums)}
	if r.Main != "" {
		written["main.go"] = r.Main
	}
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// download fetches m with the Go command and returns the folder of its source.
func download(ctx context.Context, m module) (string, error) {
	out, err := command{
		Argv:  []string{"go", "mod", "download", "-json", m.Path + "@" + m.Version},
		Dir:   os.TempDir(), // outside any module
		Limit: 15 * time.Minute,
	}.run(ctx)
	if err != nil {
		return "", err
	}
	var found struct{ Dir, Error string }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return "", fmt.Errorf("download %s: %w", m.Path, err)
	}
	if found.Error != "" {
		return "", fmt.Errorf("download %s: %s", m.Path, found.Error)
	}
	return found.Dir, nil
}
