package steps

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shelf is a directory of artifacts on disk.
type shelf struct {
	t    *testing.T
	dir  string // of the version
	sums strings.Builder
}

func newShelf(t *testing.T) *shelf {
	return &shelf{t: t, dir: filepath.Join(t.TempDir(), target)}
}

// put writes a file and its line.
func (s *shelf) put(rel, content string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, rel)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
	sum := hexSum(content)
	s.sums.WriteString(sum + "  " + rel + "\n")
	return sum
}

func hexSum(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func (s *shelf) line(text string) { s.sums.WriteString(text + "\n") }

// load writes SHA256SUMS and reads the whole. The directory's own name is left out of problems.
func (s *shelf) load() Artifacts {
	s.t.Helper()
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "SHA256SUMS"), []byte(s.sums.String()), 0o644); err != nil {
		s.t.Fatal(err)
	}
	a := LoadArtifacts(filepath.Dir(s.dir), target)
	for i := range a.Problems {
		a.Problems[i] = strings.ReplaceAll(a.Problems[i], s.dir+"/", "")
	}
	return a
}

// archive is an image archive as docker save makes it.
func archive(t *testing.T, manifest string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range map[string]string{"manifest.json": manifest, "layer.tar": "a layer"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLoadArtifacts(t *testing.T) {
	s := newShelf(t)
	s.line("# made on Monday")
	kubelet := s.put("linux-amd64/kubelet", "a kubelet")
	s.line("")
	other := s.put("linux-arm64/kubelet", "another")
	image := s.put("linux-amd64/images/etcd.tar", archive(t, `[{"RepoTags":["registry.k8s.io/etcd:3.6.8-0","etcd:latest"]},{"RepoTags":["pause:3.10"]}]`))
	a := s.load()
	size := a.Files[2].Size
	want := Artifacts{Version: target, Files: []Artifact{
		{Path: s.dir + "/linux-amd64/kubelet", Arch: "amd64", Name: "kubelet", SHA256: kubelet, Size: 9},
		{Path: s.dir + "/linux-arm64/kubelet", Arch: "arm64", Name: "kubelet", SHA256: other, Size: 7},
		{Path: s.dir + "/linux-amd64/images/etcd.tar", Arch: "amd64", Name: "etcd.tar", SHA256: image, Size: size,
			Images: []string{"registry.k8s.io/etcd:3.6.8-0", "etcd:latest", "pause:3.10"}},
	}}
	if d := cmp.Diff(want, a); d != "" {
		t.Errorf("artifacts (-want +got):\n%s", d)
	}
	if got := a.Image("amd64", "etcd"); got != "3.6.8-0" {
		t.Errorf("etcd is %q", got)
	}
	if got := a.Image("arm64", "etcd"); got != "" {
		t.Errorf("etcd for arm64 is %q, want none", got)
	}
	if art, ok := a.Binary("arm64", "kubelet"); !ok || art.SHA256 != other {
		t.Errorf("kubelet for arm64 is %+v, %v", art, ok)
	}
	if _, ok := a.Binary("amd64", "etcd.tar"); ok {
		t.Error("an image is no program")
	}
}

func TestArtifactsWithMistakes(t *testing.T) {
	sum := strings.Repeat("a", 64)
	tests := []struct {
		name string
		fill func(*shelf)
		want []string
	}{
		{"nothing is listed", func(s *shelf) { s.line("# later") }, []string{"SHA256SUMS: lists no file"}},
		{"a file is missing", func(s *shelf) { s.put("linux-amd64/kubelet", "x"); s.line(sum + "  linux-amd64/kubeadm") },
			[]string{"SHA256SUMS:2: open linux-amd64/kubeadm: no such file or directory"}},
		{"a file has changed", func(s *shelf) {
			s.put("linux-amd64/kubelet", "x")
			s.sums.Reset()
			s.line(sum + "  linux-amd64/kubelet")
		}, []string{"SHA256SUMS:1: linux-amd64/kubelet has SHA-256 " + hexSum("x") + ", want " + sum}},
		{"lines that are none", func(s *shelf) {
			s.line("kubelet")
			s.line("abc  linux-amd64/kubelet")
			s.line(strings.Repeat("z", 64) + "  linux-amd64/kubelet")
			s.line(sum)
		}, []string{
			"SHA256SUMS:1: want a SHA-256 in hex, two spaces and a path below this directory",
			"SHA256SUMS:2: want a SHA-256 in hex, two spaces and a path below this directory",
			"SHA256SUMS:3: want a SHA-256 in hex, two spaces and a path below this directory",
			"SHA256SUMS:4: want a SHA-256 in hex, two spaces and a path below this directory",
		}},
		{"paths that lead out", func(s *shelf) {
			s.line(sum + "  ../v1.35.4/linux-amd64/kubelet")
			s.line(sum + "  /etc/shadow")
			s.line(sum + "  linux-amd64/../../kubelet")
		}, []string{
			"SHA256SUMS:1: want a SHA-256 in hex, two spaces and a path below this directory",
			"SHA256SUMS:2: want a SHA-256 in hex, two spaces and a path below this directory",
			"SHA256SUMS:3: want a SHA-256 in hex, two spaces and a path below this directory",
		}},
		{"an archive that is none", func(s *shelf) { s.put("linux-amd64/images/etcd.tar", "no archive, but long enough") },
			[]string{"SHA256SUMS:1: linux-amd64/images/etcd.tar: no manifest.json in the archive: unexpected EOF"}},
		{"an archive without a manifest", func(s *shelf) {
			s.put("linux-amd64/images/etcd.tar", strings.ReplaceAll(archive(s.t, "[]"), "manifest.json", "manifest.jsox"))
		}, []string{"SHA256SUMS:1: linux-amd64/images/etcd.tar: no manifest.json in the archive: archive/tar: invalid tar header"}},
		{"a manifest that is none", func(s *shelf) { s.put("linux-amd64/images/etcd.tar", archive(s.t, "{")) },
			[]string{"SHA256SUMS:1: linux-amd64/images/etcd.tar: manifest.json: unexpected EOF"}},
		{"an archive that names no image", func(s *shelf) { s.put("linux-amd64/images/etcd.tar", archive(s.t, `[{"RepoTags":null}]`)) },
			[]string{"SHA256SUMS:1: linux-amd64/images/etcd.tar: manifest.json names no image"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newShelf(t)
			tt.fill(s)
			if d := cmp.Diff(tt.want, s.load().Problems); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

func TestArtifactsOfAVersionThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	a := LoadArtifacts(dir, target)
	want := []string{"artifacts (" + dir + ") is the directory above " + target + ": open " + filepath.Join(dir, target, "SHA256SUMS") + ": no such file or directory"}
	if d := cmp.Diff(want, a.Problems); d != "" || len(a.Files) > 0 {
		t.Errorf("files %v, problems (-want +got):\n%s", a.Files, d)
	}
}

// As sha256sum marks files that it read in binary mode.
func TestArtifactsWithAnAsterisk(t *testing.T) {
	s := newShelf(t)
	sum := s.put("linux-amd64/kubelet", "x")
	s.sums.Reset()
	s.line(sum + " *linux-amd64/kubelet")
	if a := s.load(); len(a.Files) != 1 || a.Files[0].Name != "kubelet" {
		t.Errorf("files are %+v, problems %q", a.Files, a.Problems)
	}
}

// A worker needs what kubeadm's Job, kube-proxy and CoreDNS run, and nothing of a control plane.
func TestFilesOfAHost(t *testing.T) {
	names := func(arch string, controlPlane bool) []string {
		var got []string
		for _, a := range files(target).For(arch, controlPlane) {
			got = append(got, a.Name)
		}
		return got
	}
	want := []string{"kubeadm", "kubelet", "kubectl", "crictl", "kube-proxy.tar", "coredns.tar", "pause.tar"}
	if d := cmp.Diff(want, names("amd64", false)); d != "" {
		t.Errorf("a worker's (-want +got):\n%s", d)
	}
	if got := names("amd64", true); len(got) != 11 {
		t.Errorf("a control plane's are %q, want all", got)
	}
	if got := names("arm64", true); len(got) > 0 {
		t.Errorf("of another architecture there are %q", got)
	}
	mixed := Artifact{Images: []string{"etcd:3", "coredns:1"}}
	if mixed.controlPlaneOnly() {
		t.Error("an archive with an image that workers run is not for control planes only")
	}
}

// The name on the host changes with the content: a file of another content is never taken for it.
func TestStagedName(t *testing.T) {
	a := Artifact{Name: "kubelet", SHA256: "0123456789abcdef0123"}
	if got, want := a.stagedAt(target), "/var/lib/kuberung/stage/v1.36.3/kubelet.0123456789abcdef"; got != want {
		t.Errorf("staged at %s, want %s", got, want)
	}
}
