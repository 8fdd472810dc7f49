package sim

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// release is what kubeadm of one version brings with it.
// https://github.com/kubernetes/kubernetes/blob/master/cmd/kubeadm/app/constants/constants.go
type release struct{ etcd, coreDNS, pause string }

var releases = map[string]release{
	"v1.34.4": {"3.6.5-0", "v1.12.1", "3.10.1"},
	"v1.35.3": {"3.6.6-0", "v1.13.1", "3.10.1"},
	"v1.35.4": {"3.6.6-0", "v1.13.1", "3.10.1"},
	"v1.36.1": {"3.6.8-0", "v1.14.2", "3.10.2"},
	"v1.36.3": {"3.6.8-0", "v1.14.2", "3.10.2"},
	"v1.37.2": {"3.7.0-0", "v1.14.6", "3.10.2"},
}

const registry = "registry.k8s.io/"

// images are what kubeadm of a version uses, as `kubeadm config images list` names them.
func images(version string) []string {
	r := releases[version]
	return []string{
		registry + "kube-apiserver:" + version, registry + "kube-controller-manager:" + version,
		registry + "kube-scheduler:" + version, registry + "kube-proxy:" + version,
		registry + "coredns/coredns:" + r.coreDNS, registry + "pause:" + r.pause, registry + "etcd:" + r.etcd,
	}
}

// programs are what a release installs on a host.
var programs = []string{"kubeadm", "kubelet", "kubectl", "crictl"}

// program is what stands in for a program: it says its version.
func program(name, version string) []byte {
	return []byte(name + " " + version + "\n" + strings.Repeat("#", 1024))
}

// versionOf reads the version of what stands in for a program.
func versionOf(text []byte) string {
	if words := strings.Fields(string(text)); len(words) > 1 {
		return words[1]
	}
	return ""
}

// WriteArtifacts makes a directory of artifacts of these versions, as the cluster file's `artifacts` wants it.
func WriteArtifacts(dir string, versions ...string) error {
	for _, version := range versions {
		if _, known := releases[version]; !known {
			return fmt.Errorf("version %s is not one that the simulation knows", version)
		}
		if err := writeRelease(filepath.Join(dir, version), version); err != nil {
			return err
		}
	}
	return nil
}

func writeRelease(dir, version string) error {
	if err := os.MkdirAll(filepath.Join(dir, "linux-amd64", "images"), 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	put := func(name string, data []byte) error {
		fmt.Fprintf(&sums, "%x  linux-amd64/%s\n", sha256.Sum256(data), name)
		return os.WriteFile(filepath.Join(dir, "linux-amd64", name), data, 0o644)
	}
	for _, name := range programs {
		if err := put(name, program(name, version)); err != nil {
			return err
		}
	}
	for _, image := range images(version) {
		data, err := archive(image)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
		if err := put("images/"+name+".tar", data); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// archive is an image without content, as docker save makes one.
func archive(image string) ([]byte, error) {
	manifest, err := json.Marshal([]map[string]any{{"RepoTags": []string{image}}})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	if err := t.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o644, Size: int64(len(manifest))}); err != nil {
		return nil, err
	}
	if _, err := t.Write(manifest); err != nil {
		return nil, err
	}
	return b.Bytes(), t.Close()
}

// imagesIn reads the images of an archive.
func imagesIn(data []byte) ([]string, error) {
	t := tar.NewReader(bytes.NewReader(data))
	if _, err := t.Next(); err != nil {
		return nil, err
	}
	var entries []struct{ RepoTags []string }
	if err := json.NewDecoder(t).Decode(&entries); err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.RepoTags...)
	}
	return found, nil
}

// minor is "v1.36" of "v1.36.3".
func minor(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// tagOf gives the tag of an image.
func tagOf(image string) string { return image[strings.LastIndex(image, ":")+1:] }
