package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readTar returns the headers of an archive and the contents of its files, by name.
func readTar(t *testing.T, archive []byte) (map[string]*tar.Header, map[string][]byte) {
	t.Helper()
	headers, contents := map[string]*tar.Header{}, map[string][]byte{}
	for in := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := in.Next()
		if err == io.EOF {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name], contents[header.Name] = header, data
	}
}

func someImage(t *testing.T) image {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	return image{
		Ref:        "registry.k8s.io/pause:3.10",
		Entrypoint: []string{"/pause"},
		Entries: []entry{
			executable("pause", program),
			{Path: "tmp", Mode: 0o777 | fs.ModeSticky},
			{Path: "bin", Link: "usr/bin"},
			{Path: "etc/motd", Mode: 0o640, UID: 7, Data: []byte("hello")},
		},
	}
}

func TestImageIsADockerArchive(t *testing.T) {
	var archive bytes.Buffer
	if err := someImage(t).write(&archive); err != nil {
		t.Fatal(err)
	}
	_, files := readTar(t, archive.Bytes())

	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || len(manifest[0].Layers) != 1 || !cmp.Equal(manifest[0].RepoTags, []string{"registry.k8s.io/pause:3.10"}) {
		t.Fatalf("manifest is %+v, want one image with its name and one layer", manifest)
	}
	layer, config := files[manifest[0].Layers[0]], files[manifest[0].Config]
	if sum := sha256.Sum256(config); manifest[0].Config != hex.EncodeToString(sum[:])+".json" {
		t.Errorf("configuration is called %s, not after its digest", manifest[0].Config)
	}
	var parsed struct {
		Config struct{ Entrypoint []string }
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(layer)
	if want := []string{"sha256:" + hex.EncodeToString(sum[:])}; !cmp.Equal(parsed.Rootfs.DiffIDs, want) {
		t.Errorf("diff_ids are %v, want %v", parsed.Rootfs.DiffIDs, want)
	}
	if !cmp.Equal(parsed.Config.Entrypoint, []string{"/pause"}) {
		t.Errorf("entrypoint is %v", parsed.Config.Entrypoint)
	}
}

func TestEntriesKeepWhatTheySay(t *testing.T) {
	var archive bytes.Buffer
	if err := writeTar(&archive, someImage(t).Entries); err != nil {
		t.Fatal(err)
	}
	headers, contents := readTar(t, archive.Bytes())
	type kept struct {
		Type     byte
		Mode     int64
		UID      int
		Link     string
		Contents string
	}
	got := map[string]kept{}
	for name, h := range headers {
		got[name] = kept{h.Typeflag, h.Mode, h.Uid, h.Linkname, string(contents[name])}
	}
	want := map[string]kept{
		"pause":    {tar.TypeReg, 0o755, 0, "", "#!"},
		"tmp/":     {tar.TypeDir, 0o1777, 0, "", ""},
		"bin":      {tar.TypeSymlink, 0, 0, "usr/bin", ""},
		"etc/motd": {tar.TypeReg, 0o640, 7, "", "hello"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestEqualImagesGiveEqualArchives(t *testing.T) {
	one, other := someImage(t), someImage(t) // from different files
	other.Entries[0], other.Entries[3] = other.Entries[3], other.Entries[0]
	var a, b bytes.Buffer
	if err := one.write(&a); err != nil {
		t.Fatal(err)
	}
	if err := other.write(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two archives of the same image differ")
	}
}

func TestAppendedEntriesComeLast(t *testing.T) {
	var base, all bytes.Buffer
	if err := writeTar(&base, []entry{{Path: "etc/motd", Mode: 0o644, Data: []byte("old")}, {Path: "etc/kept", Mode: 0o644, Data: []byte("kept")}}); err != nil {
		t.Fatal(err)
	}
	if err := appendTar(&all, &base, []entry{{Path: "etc/motd", Mode: 0o644, Data: []byte("new")}}); err != nil {
		t.Fatal(err)
	}
	_, contents := readTar(t, all.Bytes()) // a later file of the same name wins, as in any reader
	want := map[string][]byte{"etc/motd": []byte("new"), "etc/kept": []byte("kept")}
	if diff := cmp.Diff(want, contents); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}
