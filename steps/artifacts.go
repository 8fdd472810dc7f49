package steps

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// Artifacts is what the artifacts directory holds for one version:
//
//	v1.36.3/SHA256SUMS                        as sha256sum prints it, paths relative to its directory
//	v1.36.3/linux-amd64/kubeadm               also kubelet, kubectl, crictl
//	v1.36.3/linux-amd64/images/NAME.tar       as docker save makes them
type Artifacts struct {
	Version  string
	Files    []Artifact
	Problems []string // files that are missing, changed, or not understood
}

// Artifact is one file of a directory of artifacts.
type Artifact struct {
	Path   string // on the operator's disk
	Arch   string // "amd64"
	Name   string // "kubelet", "kube-proxy.tar"
	SHA256 string // hex
	Size   int64  // bytes
	Images []string
}

// binaries are the programs of a host that a rung may replace.
var binaries = []string{"kubeadm", "kubelet", "kubectl", "crictl"}

// LoadArtifacts reads dir/version, every file with its checksum. What is wrong is in Problems:
// nothing of it may be installed then.
func LoadArtifacts(dir, version string) Artifacts {
	a := Artifacts{Version: version}
	sums := filepath.Join(dir, version, "SHA256SUMS")
	file, err := os.Open(sums)
	if err != nil {
		a.Problems = append(a.Problems, fmt.Sprintf("artifacts (%s) is the directory above %s: %v", dir, version, err))
		return a
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		art, err := loadArtifact(filepath.Dir(sums), line)
		if err != nil {
			a.Problems = append(a.Problems, fmt.Sprintf("%s:%d: %v", sums, n, err))
			continue
		}
		a.Files = append(a.Files, art)
	}
	if err := lines.Err(); err != nil {
		a.Problems = append(a.Problems, fmt.Sprintf("%s: %v", sums, err))
	}
	if len(a.Files) == 0 && len(a.Problems) == 0 {
		a.Problems = append(a.Problems, sums+": lists no file")
	}
	return a
}

func loadArtifact(dir, line string) (Artifact, error) {
	sum, rel, ok := strings.Cut(line, " ")
	rel = strings.TrimPrefix(strings.TrimSpace(rel), "*")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || !filepath.IsLocal(rel) {
		return Artifact{}, errors.New("want a SHA-256 in hex, two spaces and a path below this directory")
	}
	platform, rest, _ := strings.Cut(filepath.ToSlash(rel), "/")
	art := Artifact{
		Path: filepath.Join(dir, rel), Name: path.Base(rest),
		Arch: strings.TrimPrefix(platform, "linux-"), SHA256: sum,
	}
	got, size, err := digest(art.Path)
	if err != nil {
		return Artifact{}, err
	}
	if got != sum {
		return Artifact{}, fmt.Errorf("%s has SHA-256 %s, want %s", art.Path, got, sum)
	}
	art.Size = size
	if strings.HasPrefix(rest, "images/") {
		if art.Images, err = imagesIn(art.Path); err != nil {
			return Artifact{}, fmt.Errorf("%s: %w", art.Path, err)
		}
	}
	return art, nil
}

func digest(name string) (sum string, size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// imagesIn reads the image references from an archive as docker save makes it.
func imagesIn(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	archive := tar.NewReader(f)
	for {
		header, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("no manifest.json in the archive: %w", err)
		}
		if header.Name != "manifest.json" {
			continue
		}
		var entries []struct{ RepoTags []string }
		if err := json.NewDecoder(archive).Decode(&entries); err != nil {
			return nil, fmt.Errorf("manifest.json: %w", err)
		}
		var images []string
		for _, e := range entries {
			images = append(images, e.RepoTags...)
		}
		if len(images) == 0 {
			return nil, errors.New("manifest.json names no image")
		}
		return images, nil
	}
}

// Binary gives the file of a program for an architecture.
func (a Artifacts) Binary(arch, name string) (Artifact, bool) {
	for _, f := range a.Files {
		if f.Arch == arch && f.Name == name && f.Images == nil {
			return f, true
		}
	}
	return Artifact{}, false
}

// controlPlaneOnly are the images that a worker never runs.
var controlPlaneOnly = map[string]bool{
	"kube-apiserver": true, "kube-controller-manager": true, "kube-scheduler": true, "etcd": true,
}

// For gives the files that a host of this architecture needs, programs before images. A worker is
// spared the images of control-plane components; it gets the rest, for kubeadm's health check and
// the add-ons may land on any node as soon as the first control plane moves.
func (a Artifacts) For(arch string, controlPlane bool) []Artifact {
	var files []Artifact
	for _, f := range a.Files {
		if f.Arch == arch && (controlPlane || !f.controlPlaneOnly()) {
			files = append(files, f)
		}
	}
	sort.SliceStable(files, func(i, j int) bool { return files[i].Images == nil && files[j].Images != nil })
	return files
}

func (f Artifact) controlPlaneOnly() bool {
	for _, image := range f.Images {
		if !controlPlaneOnly[repositoryOf(image)] {
			return false
		}
	}
	return len(f.Images) > 0
}

// Image gives the tag that this version's image of a repository has, such as "3.6.8-0" for "etcd";
// "" when the directory has none.
func (a Artifacts) Image(arch, repository string) string {
	for _, f := range a.Files {
		for _, image := range f.Images {
			if f.Arch == arch && repositoryOf(image) == repository {
				return tagOf(image)
			}
		}
	}
	return ""
}

// stagedAt is where a file stands on a host before it is installed. The name holds its digest:
// a file is given this name only once its content was verified on the host.
func (f Artifact) stagedAt(version string) string {
	return path.Join(stageDir, version, f.Name+"."+f.SHA256[:16])
}

const stageDir = "/var/lib/kuberung/stage"
