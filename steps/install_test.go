package steps

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/internal/config"
)

// installation is what install.sh is given, on a machine of its own.
type installation struct {
	*machine
	staged, target, previous string
}

func newInstallation(t *testing.T) installation {
	m := newMachine(t)
	m.tools("basename chmod cp dirname mkdir mv rm sha256sum sync")
	m.program("chown", ":")
	m.file("/stage/kubelet", "new")
	m.file("/usr/bin/kubelet", "old")
	return installation{m, m.root + "/stage/kubelet", m.root + "/usr/bin/kubelet", m.root + "/previous/v1.35.4"}
}

// run gives what the script says on its error stream.
func (i installation) run(sum string) (string, error) {
	cmd := exec.CommandContext(i.t.Context(), "/bin/sh", "-s", i.staged, sum, i.target, i.previous)
	cmd.Env = []string{"PATH=" + i.bin}
	cmd.Stdin = strings.NewReader(installScript)
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	return said.String(), err
}

func (i installation) wants(file, content string, mode os.FileMode) {
	i.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil || string(data) != content {
		i.t.Errorf("%s holds %q, %v, want %q", file, data, err, content)
		return
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
		i.t.Errorf("%s has mode %v, %v, want %v", file, info.Mode(), err, mode)
	}
}

// listing is everything below the root.
func (i installation) listing() []string {
	i.t.Helper()
	var names []string
	err := filepath.WalkDir(i.root, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(name, i.root))
		}
		return err
	})
	if err != nil {
		i.t.Fatal(err)
	}
	return names
}

func TestInstall(t *testing.T) {
	i := newInstallation(t)
	for range 2 { // a second run changes nothing
		if said, err := i.run(hexSum("new")); err != nil || said != "" {
			t.Fatalf("%v: %s", err, said)
		}
		i.wants(i.target, "new", 0o755)
		i.wants(i.previous+"/kubelet", "old", 0o644)
		if d := cmp.Diff([]string{"/previous/v1.35.4/kubelet", "/stage/kubelet", "/usr/bin/kubelet"}, i.listing()); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
	}
	if info, err := os.Stat(i.previous); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of old programs has mode %v, %v", info.Mode(), err)
	}
}

func TestInstallWithAWrongChecksumTouchesNothing(t *testing.T) {
	i := newInstallation(t)
	said, err := i.run(hexSum("another"))
	if err == nil || !strings.Contains(said, "FAILED") {
		t.Errorf("%v: %s, want a failed checksum", err, said)
	}
	i.wants(i.target, "old", 0o644)
	if d := cmp.Diff([]string{"/stage/kubelet", "/usr/bin/kubelet"}, i.listing()); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// A disk that is full, or anything else that fails, leaves the old program as it was.
func TestInstallThatFailsMidwayLeavesTheOldProgram(t *testing.T) {
	for _, tool := range []string{"cp", "chmod", "sync", "mv"} {
		i := newInstallation(t)
		i.program(tool, "echo no space left on device >&2; exit 1")
		if said, err := i.run(hexSum("new")); err == nil || !strings.Contains(said, "no space left") {
			t.Errorf("without %s: %v: %s", tool, err, said)
		}
		i.wants(i.target, "old", 0o644)
	}
}

// The copy of the old program is kept from the first time on: what is installed later is not "previous".
func TestInstallKeepsTheFirstOldProgram(t *testing.T) {
	i := newInstallation(t)
	i.file("/previous/v1.35.4/kubelet", "the first")
	i.file("/previous/v1.35.4/.kubelet.part", "half a copy of a run that was cut off")
	if said, err := i.run(hexSum("new")); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	i.wants(i.previous+"/kubelet", "the first", 0o644)
	i.wants(i.target, "new", 0o755)
}

func TestStageAndInstall(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	shelf := newShelf(t)
	for _, name := range binaries {
		shelf.put("linux-amd64/"+name, "the new "+name)
	}
	shelf.put("linux-amd64/images/pause.tar", archive(t, `[{"RepoTags":["registry.k8s.io/pause:3.10.1"]}]`))
	f := seen(session.Cluster, old)
	f.Artifacts = shelf.load()
	s.file("/usr/bin/kubelet", "the old kubelet")
	f.host("w-1", func(h *Host) {
		h.Binaries = map[string]Binary{"kubelet": {Path: s.root + "/usr/bin/kubelet", Version: old}}
	})
	s.program("ctr", `echo "ctr $* $(cat "$5" | wc -c)" >>"$FAKE/log"; [ ! -e "$FAKE/ctr-fails" ] || { echo "ctr: no space" >&2; exit 1; }`)

	if err := StageFiles(session, "w-1").Run(t.Context(), f, quiet); err != nil {
		t.Fatal(err)
	}
	for _, a := range f.Artifacts.Files {
		if got := s.on(a.stagedAt(target)); a.Images == nil && got != "the new "+a.Name {
			t.Errorf("%s holds %q", a.stagedAt(target), got)
		}
	}
	pause := f.Artifacts.Files[4]
	s.note("ctr-fails", "")
	err := ImportImages(session, "w-1").Run(t.Context(), f, quiet)
	if err == nil || !strings.HasPrefix(err.Error(), "import pause.tar: ") || !strings.Contains(err.Error(), "ctr: no space") {
		t.Errorf("error is %v, want the image's name and what ctr said", err)
	}
	if err := os.Remove(filepath.Join(s.fake, "ctr-fails")); err != nil {
		t.Fatal(err)
	}
	s.ran()
	if err := ImportImages(session, "w-1").Run(t.Context(), f, quiet); err != nil {
		t.Fatal(err)
	}
	if got := s.ran(); len(got) != 1 || !strings.HasPrefix(got[0], "ctr -n k8s.io images import "+pause.stagedAt(target)+" ") {
		t.Errorf("ran %q, want one import", got)
	}
	if got := s.on(pause.stagedAt(target)); got != "" {
		t.Error("the archive is still on the host")
	}

	if err := InstallKubelet(session, "w-1").Run(t.Context(), f, quiet); err != nil {
		t.Fatal(err)
	}
	if got := s.on("/usr/bin/kubelet"); got != "the new kubelet" {
		t.Errorf("the kubelet is %q", got)
	}
	if got := s.on("/usr/bin/kubectl"); got != "" {
		t.Errorf("a kubectl was installed where there was none: %q", got)
	}
	if got := s.on("/var/lib/kuberung/previous/v1.35.4/kubelet"); got != "the old kubelet" {
		t.Errorf("the old kubelet was kept as %q", got)
	}
	if err := RemoveStaged(session, "w-1").Run(t.Context(), f, quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.root + stageDir); !os.IsNotExist(err) {
		t.Errorf("the staged files are still there: %v", err)
	}
}

// A file that has changed on the operator's disk since it was looked at never gets its name on the host.
func TestStageAFileThatChangedMeanwhile(t *testing.T) {
	s := newStand(t)
	session := s.open(config.Worker)
	shelf := newShelf(t)
	shelf.put("linux-amd64/kubelet", "the new kubelet")
	f := seen(session.Cluster, old)
	f.Artifacts = shelf.load()
	shelf.put("linux-amd64/kubelet", "something else!")
	err := StageFiles(session, "w-1").Run(t.Context(), f, quiet)
	if err == nil || !strings.HasPrefix(err.Error(), "upload kubelet: ") {
		t.Errorf("error is %v", err)
	}
	if got := s.on(f.Artifacts.Files[0].stagedAt(target)); got != "" {
		t.Errorf("the host has %q under its name", got)
	}
}
