package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// entry is one file, link or folder of a tar archive. Exactly one of Source, Data and Link is set; none means a folder.
type entry struct {
	Path   string // inside the archive, without a leading slash
	Mode   fs.FileMode
	UID    int
	Source string // file to copy
	Data   []byte
	Link   string // target of a symbolic link
}

// image is a container image with one layer.
type image struct {
	Ref        string // with registry and tag, as kubeadm names it
	Entries    []entry
	Entrypoint []string
}

// epoch is the time of every file, so that equal contents give equal archives.
var epoch = time.Unix(0, 0)

// write writes the image as a docker-archive: what `docker save` writes, and `ctr images import` and `docker load` read.
// The layer is written to a temporary file first, because a tar header states the size of what follows.
func (i image) write(w io.Writer) error {
	layer, err := os.CreateTemp("", "kuberung-layer-")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	sum := sha256.New()
	if err := writeTar(io.MultiWriter(layer, sum), i.Entries); err != nil {
		return err
	}
	diffID := hex.EncodeToString(sum.Sum(nil))
	config := i.config(diffID)
	configSum := sha256.Sum256(config)
	configName, layerName := hex.EncodeToString(configSum[:])+".json", diffID+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{i.Ref}, "Layers": []string{layerName}}})
	if err != nil {
		return err
	}
	return writeTar(w, []entry{
		{Path: "manifest.json", Mode: 0o644, Data: manifest},
		{Path: configName, Mode: 0o644, Data: config},
		{Path: layerName, Mode: 0o644, Source: layer.Name()},
	})
}

// config is the image configuration of the OCI image specification.
func (i image) config(diffID string) []byte {
	text, err := json.Marshal(map[string]any{
		"architecture": "amd64",
		"os":           "linux",
		"created":      epoch.UTC().Format(time.RFC3339),
		"config": map[string]any{
			"Env":        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			"Entrypoint": i.Entrypoint,
			"WorkingDir": "/",
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + diffID}},
	})
	if err != nil {
		panic(err) // only strings
	}
	return text
}

// writeTar writes an archive of entries.
func writeTar(w io.Writer, entries []entry) error {
	out := tar.NewWriter(w)
	if err := writeEntries(out, entries); err != nil {
		return err
	}
	return out.Close()
}

// writeEntries writes entries sorted by path. Folders above them are left to whoever unpacks: naming them would set their
// mode and owner where they are there already.
func writeEntries(out *tar.Writer, entries []entry) error {
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	for _, e := range sorted {
		if err := e.writeTo(out); err != nil {
			return fmt.Errorf("archive %s: %w", e.Path, err)
		}
	}
	return nil
}

func (e entry) writeTo(out *tar.Writer) error {
	header := &tar.Header{Name: e.Path, Mode: int64(e.Mode.Perm()), Uid: e.UID, Gid: e.UID, ModTime: epoch, Format: tar.FormatPAX}
	var body io.Reader
	switch {
	case e.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.Link
	case e.Source != "":
		file, err := os.Open(e.Source)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		header.Typeflag, header.Size, body = tar.TypeReg, info.Size(), file
	case e.Data != nil:
		header.Typeflag, header.Size, body = tar.TypeReg, int64(len(e.Data)), bytes.NewReader(e.Data)
	default:
		header.Typeflag = tar.TypeDir
		header.Name += "/"
	}
	if e.Mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	if body == nil {
		return nil
	}
	_, err := io.Copy(out, body)
	return err
}
