package hosts

import (
	"bytes"
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

// What cannot be looked at may be there.
func TestReadFileThatCannotBeLookedAt(t *testing.T) {
	s := startServer(t, nil)
	loop := filepath.Join(s.dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	_, err := s.host(t, nil).ReadFile(t.Context(), loop+"/file")
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "Too many levels") {
		t.Errorf("got %v, want the reason", err)
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
	// Data goes out with the script once sudo is known to let it through; head would hold back a script alone.
	if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}, Sudo: true}); err != nil {
		t.Fatal(err)
	}
	s.put(t, "f", "old")
	err := h.WriteFile(t.Context(), s.files["f"], bytes.Repeat([]byte("x"), 60000), 0o644)
	if !errors.Is(err, ErrChecksum) {
		t.Errorf("got %v, want ErrChecksum", err)
	}
	checkFile(t, s.files["f"], "old", 0o600)
	checkOnly(t, s.dir, "f", "key", "known_hosts")
}

// Where SELinux is on, a file that came by renaming gets the label of its new place.
func TestLabels(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	bin := t.TempDir()
	said := filepath.Join(s.fake, "restorecon")
	restorecon := "#!/bin/sh\ncat \"$1\" >/dev/null && echo \"$1\" >>" + Quote(said) + "\n"
	if err := os.WriteFile(filepath.Join(bin, "restorecon"), []byte(restorecon), 0o755); err != nil {
		t.Fatal(err)
	}
	h.tune.searchPath = bin + ":" + h.tune.searchPath
	h.tune.selinuxDir = filepath.Join(s.dir, "selinux")
	local, _ := randomFile(t, 100)
	written, uploaded := filepath.Join(s.dir, "written"), filepath.Join(s.dir, "uploaded")
	for _, on := range []bool{false, true} {
		if on {
			if err := os.MkdirAll(filepath.Join(h.tune.selinuxDir, "booleans"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.WriteFile(t.Context(), written, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(uploaded)
		if err := h.Upload(t.Context(), local, uploaded, 0o600, "", nil); err != nil {
			t.Fatal(err)
		}
		if !on {
			wantAbsent(t, said)
		}
	}
	checkFile(t, said, written+"\n"+uploaded+"\n", 0o644)
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
