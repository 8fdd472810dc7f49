package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFile(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	want := []byte("\x00binary\xff\nno newline")
	s.put(t, "a file", string(want))
	got, err := h.ReadFile(t.Context(), s.files["a file"])
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = h.ReadFile(t.Context(), filepath.Join(s.dir, "absent"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got %v", err)
	}
	_, err = h.ReadFile(t.Context(), s.dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory: got %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	s := startServer(t, func(s *server) { s.shell = []string{"/bin/sh", "-c", `umask 077; eval "$0"`} })
	h := s.host(t, nil)
	path := filepath.Join(s.dir, "it's here")
	for _, c := range []struct {
		data string
		mode fs.FileMode
	}{{"first\n", 0o644}, {"", 0o600}, {strings.Repeat("third\x00", 100_000), 0o755 | fs.ModeSetuid}} {
		if err := h.WriteFile(t.Context(), path, []byte(c.data), c.mode); err != nil {
			t.Fatal(err)
		}
		checkFile(t, path, c.data, c.mode)
	}
	checkOnly(t, s.dir, "it's here", "key", "known_hosts")
	if err := h.WriteFile(t.Context(), filepath.Join(s.dir, "absent", "f"), nil, 0o600); err == nil {
		t.Error("made a directory nobody asked for")
	}
	for _, bad := range []string{"", "/", "relative", "/etc/"} {
		if err := h.WriteFile(t.Context(), bad, nil, 0o600); err == nil {
			t.Errorf("path %q accepted", bad)
		}
	}
}

// What arrives incomplete is not put in place.
func TestWriteFileCut(t *testing.T) {
	s := startServer(t, func(s *server) {
		// The shell sees the script, and half of the data after it.
		s.shell = []string{"/bin/sh", "-c", `head -c 30000 | eval "$0"`}
	})
	h := s.host(t, nil)
	s.put(t, "f", "old")
	err := h.WriteFile(t.Context(), s.files["f"], bytes.Repeat([]byte("x"), 60000), 0o644)
	if !errors.Is(err, ErrChecksum) {
		t.Errorf("got %v, want ErrChecksum", err)
	}
	checkFile(t, s.files["f"], "old", 0o600)
	checkOnly(t, s.dir, "f", "key", "known_hosts")
}

func TestUpload(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	data := make([]byte, 5<<20+7)
	_, _ = rand.Read(data)
	sum := sha256.Sum256(data)
	local := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	remote := filepath.Join(s.dir, "new", "dir", "kubelet")
	var last int64
	for _, given := range []string{hex.EncodeToString(sum[:]), ""} {
		_ = os.RemoveAll(filepath.Join(s.dir, "new"))
		last = 0
		progress := func(sent int64) {
			if sent < last {
				t.Errorf("progress went from %d to %d", last, sent)
			}
			last = sent
		}
		if err := h.Upload(t.Context(), local, remote, 0o755, given, progress); err != nil {
			t.Fatal(err)
		}
		if last != int64(len(data)) {
			t.Errorf("progress ended at %d of %d", last, len(data))
		}
		checkFile(t, remote, string(data), 0o755)
		if info, err := os.Stat(filepath.Dir(remote)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("parent: %v, %v", info.Mode(), err)
		}
		checkOnly(t, filepath.Dir(remote), "kubelet")
		checkOnly(t, filepath.Join(s.state, "incoming"))
	}
	// The same file again is not sent; its mode is put right.
	last = 0
	if err := h.Upload(t.Context(), local, remote, 0o700, "", func(sent int64) { last = sent }); err != nil {
		t.Fatal(err)
	}
	checkFile(t, remote, string(data), 0o700)
	if last != 0 {
		t.Errorf("%d bytes sent for an unchanged file", last)
	}
	wrong := strings.Repeat("0", 64)
	if err := h.Upload(t.Context(), local, remote, 0o755, wrong, nil); !errors.Is(err, ErrChecksum) {
		t.Errorf("wrong checksum: got %v", err)
	}
	checkFile(t, remote, string(data), 0o700)
	checkOnly(t, filepath.Dir(remote), "kubelet")
}

func TestUploadCut(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	local := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(local, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	remote := filepath.Join(s.dir, "big")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		ctx  context.Context
		cut  func()
		want error
	}{
		"line":    {t.Context(), s.cut, ErrConnLost},
		"context": {ctx, func() { cancel(stop) }, stop},
	} {
		once := false
		err := h.Upload(c.ctx, local, remote, 0o644, "", func(sent int64) {
			if sent > 8<<20 && !once {
				once = true
				c.cut()
			}
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if _, err := os.Stat(remote); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something stands under the final name: %v", name, err)
		}
	}
	if err := h.Upload(t.Context(), local, remote, 0o644, "", nil); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestUploadWithoutSFTP(t *testing.T) {
	s := startServer(t, func(s *server) { s.noSFTP = true })
	h := s.host(t, nil)
	err := h.Upload(t.Context(), s.files["key"], filepath.Join(s.dir, "f"), 0o600, "", nil)
	if err == nil || !strings.Contains(err.Error(), "refuses subsystem requests") {
		t.Errorf("got %v", err)
	}
}

func checkFile(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s: %d bytes differ from the %d wanted", path, len(got), len(want))
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: mode %v, want %v", path, info.Mode(), mode)
	}
}

// checkOnly fails unless dir holds exactly these entries.
func checkOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}
