package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownModule is the module that the lab is part of.
const ownModule = "github.com/kuberung/kuberung"

// builder turns the versions table into files in the cache.
type builder struct{ cache cache }

// platform is the folder of an artifact folder that holds one architecture's files.
const platform = "linux-amd64"

// artifactsDir is where the artifacts of all versions are.
func (b builder) artifactsDir() string { return filepath.Join(b.cache.dir, "artifacts") }

// artifacts brings the folder that an upgrade to r reads into being:
//
//	v1.36.3/SHA256SUMS                     as sha256sum writes it, paths relative to its folder
//	v1.36.3/linux-amd64/kubeadm            likewise kubelet, kubectl, crictl
//	v1.36.3/linux-amd64/images/etcd.tar    one docker-archive for each image that kubeadm lists
//
// Its name cannot carry a digest, so the recipes' digest is in a hidden file; another one there means building it again.
func (b builder) artifacts(ctx context.Context, r release) (string, error) {
	contents, err := b.artifactFiles(ctx, r)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.artifactsDir(), r.Kubernetes)
	mark := digest(contents)
	if have, err := os.ReadFile(filepath.Join(dir, ".recipe")); err == nil && string(have) == mark {
		return dir, nil
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return b.cache.product(filepath.Join("artifacts", r.Kubernetes), func(tmp string) error {
		say("laying out artifacts of %s", r.Kubernetes)
		return layOut(tmp, contents, mark)
	})
}

// artifactFiles builds what r's folder holds: path in the folder to file in the cache.
func (b builder) artifactFiles(ctx context.Context, r release) (map[string]string, error) {
	kubernetes, err := kubernetesRecipe(r.Kubernetes).build(ctx, b.cache)
	if err != nil {
		return nil, err
	}
	crictl, err := crictlRecipe(r.Crictl).build(ctx, b.cache)
	if err != nil {
		return nil, err
	}
	contents := map[string]string{platform + "/crictl": filepath.Join(crictl, "crictl")}
	for _, name := range []string{"kubeadm", "kubelet", "kubectl"} {
		contents[platform+"/"+name] = filepath.Join(kubernetes, name)
	}
	refs, err := listImages(ctx, kubernetes, r.Kubernetes)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		component, _ := splitRef(ref)
		archive, err := b.buildImage(ctx, ref, kubernetes)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", ref, err)
		}
		contents[platform+"/images/"+component+".tar"] = archive
	}
	return contents, nil
}

// layOut writes the folder dir: hard links into the cache, their checksums, and the mark.
func layOut(dir string, contents map[string]string, mark string) error {
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Link(contents[name], path); err != nil {
			return err
		}
		sum, err := fileSum(path)
		if err != nil {
			return err
		}
		sums.WriteString(sum + "  " + name + "\n")
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ".recipe"), []byte(mark), 0o644)
}

// fileSum is the SHA-256 of a file, in hexadecimal.
func fileSum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
