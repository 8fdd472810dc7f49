package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// webImage is the workloads' image; the lab owns its registry's name, so no node can ever pull it.
const webImage = "registry.lab.test/web:1"

// listImages asks kubeadm itself which images its version wants: the only list that cannot be wrong.
func listImages(ctx context.Context, binaries, version string) ([]string, error) {
	out, err := command{Argv: []string{
		filepath.Join(binaries, "kubeadm"), "config", "images", "list", "--kubernetes-version", version,
	}, Limit: time.Minute}.run(ctx)
	if err != nil {
		return nil, err
	}
	return strings.Fields(out), nil
}

// splitRef splits registry.k8s.io/coredns/coredns:v1.14.2 into coredns and v1.14.2.
func splitRef(ref string) (component, tag string) {
	name, tag, _ := strings.Cut(path.Base(ref), ":")
	return name, tag
}

// buildImage returns the path of the archive of ref, one of the images that kubeadm lists. kubernetes is the folder of that
// version's binaries.
func (b builder) buildImage(ctx context.Context, ref, kubernetes string) (string, error) {
	component, tag := splitRef(ref)
	img := image{Ref: ref}
	switch component {
	case "etcd": // tagged 3.6.8-0: the version, and the revision of the image
		version, _, _ := strings.Cut(tag, "-")
		dir, err := etcdRecipe("v"+version).build(ctx, b.cache)
		if err != nil {
			return "", err
		}
		for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
			img.Entries = append(img.Entries, executable("usr/local/bin/"+name, filepath.Join(dir, name)))
		}
	case "coredns": // its Deployment gives arguments only
		dir, err := coreDNSRecipe(tag).build(ctx, b.cache)
		if err != nil {
			return "", err
		}
		img.Entries = append(img.Entries, executable("coredns", filepath.Join(dir, "coredns")))
		img.Entrypoint = []string{"/coredns"}
	case "pause":
		binary, err := b.ownBinary(ctx, "pause", "-X main.version="+tag)
		if err != nil {
			return "", err
		}
		img.Entries = append(img.Entries, executable("pause", binary))
		img.Entrypoint = []string{"/pause"}
	case "kube-proxy":
		root, err := b.debian(ctx)
		if err != nil {
			return "", err
		}
		img.Entries, err = netfilterEntries(root)
		if err != nil {
			return "", err
		}
		fallthrough
	case "kube-apiserver", "kube-controller-manager", "kube-scheduler":
		img.Entries = append(img.Entries, executable("usr/local/bin/"+component, filepath.Join(kubernetes, component)))
		img.Entrypoint = []string{"/usr/local/bin/" + component}
	default:
		return "", fmt.Errorf("kubeadm lists %s, which the lab cannot build", ref)
	}
	return b.archive(img)
}

// buildWeb returns the path of the archive of the workloads' image.
func (b builder) buildWeb(ctx context.Context) (string, error) {
	binary, err := b.ownBinary(ctx, "web", "")
	if err != nil {
		return "", err
	}
	return b.archive(image{Ref: webImage, Entries: []entry{executable("web", binary)}, Entrypoint: []string{"/web"}})
}

// archive writes img into the cache under a name that changes with its contents.
func (b builder) archive(img image) (string, error) {
	img.Entries = append(img.Entries, entry{Path: "tmp", Mode: 0o777 | fs.ModeSticky})
	component, tag := splitRef(img.Ref)
	return b.cache.product(filepath.Join("images", component+"-"+tag+"-"+digest(img)+".tar"), func(tmp string) error {
		say("packing %s", img.Ref)
		file, err := os.Create(tmp)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := img.write(file); err != nil {
			return err
		}
		return file.Close()
	})
}

// ownBinary builds one of the lab's own commands, lab/<name>, and returns its path, which changes with its contents.
func (b builder) ownBinary(ctx context.Context, name, ldflags string) (string, error) {
	tmp, err := os.MkdirTemp("", "kuberung-lab-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	built := filepath.Join(tmp, name)
	_, err = command{
		Argv: []string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + ldflags, "-o", built, ownModule + "/lab/" + name},
		Env:  []string{"CGO_ENABLED=0"},
	}.run(ctx)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	return b.cache.product(filepath.Join("bin", name+"-"+digest(content), name), func(tmp string) error {
		return os.WriteFile(tmp, content, 0o755)
	})
}

// executable is the entry of a program copied from source.
func executable(path, source string) entry { return entry{Path: path, Mode: 0o755, Source: source} }
