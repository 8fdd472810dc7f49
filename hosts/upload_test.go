package hosts

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/pkg/sftp"
)

// randomFile is a local file and what it holds.
func randomFile(t *testing.T, size int) (path string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	_, _ = rand.Read(data)
	path = filepath.Join(t.TempDir(), "local")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, data
}

func TestUpload(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	local, data := randomFile(t, 5<<20+7)
	sum := sha256.Sum256(data)
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

func TestUploadReplacesALink(t *testing.T) {
	s := startServer(t, func(s *server) { s.shell = []string{"/bin/sh", "-c", `umask 0777; eval "$0"`} })
	h := s.host(t, nil)
	local, data := randomFile(t, 1000)
	s.put(t, "precious", "precious")
	link := filepath.Join(s.dir, "link")
	for _, target := range []string{s.files["precious"], local} { // the second has the content already
		_ = os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if err := h.Upload(t.Context(), local, link, 0o640, "", nil); err != nil {
			t.Fatal(err)
		}
		checkFile(t, link, string(data), 0o640)
		if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	checkFile(t, s.files["precious"], "precious", 0o600)
}

func TestUploadCancelled(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	local, _ := randomFile(t, 64<<20)
	remote := filepath.Join(s.dir, "big")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	err := h.Upload(ctx, local, remote, 0o644, "", func(sent int64) {
		if sent > 8<<20 {
			cancel(stop)
		}
	})
	wantError(t, err, stop)
	wantAbsent(t, remote)
}

// wantAbsent fails if something stands under a name.
func wantAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v, want nothing there", path, err)
	}
}

// sftpServer is a server whose SFTP is as given; it counts how often that starts.
func sftpServer(t *testing.T, handle func(gliderssh.Session), setup func(*server)) (*server, *atomic.Int64) {
	t.Helper()
	starts := new(atomic.Int64)
	return startServer(t, func(s *server) {
		s.noSFTP = true // of the usual kind
		s.SubsystemHandlers = map[string]gliderssh.SubsystemHandler{"sftp": func(sess gliderssh.Session) {
			starts.Add(1)
			handle(sess)
		}}
		if setup != nil {
			setup(s)
		}
	}), starts
}

// Where SFTP does not work the same bytes go by cat, and the next file does not try again.
func TestUploadWithoutSFTP(t *testing.T) {
	say := func(words string) func(gliderssh.Session) {
		return func(sess gliderssh.Session) { _, _ = io.WriteString(sess, words); _, _ = io.Copy(io.Discard, sess) }
	}
	for name, c := range map[string]struct {
		handle func(gliderssh.Session)
		shell  string
	}{
		"banner":       {say("Welcome to cp1. Authorised use only.\n"), `printf 'Welcome! (no newline)'; eval "$0"`},
		"short banner": {say("Hi\n"), `echo Hi; eval "$0"`},
		"silence":      {say(""), `eval "$0"`},
		"not there":    {func(sess gliderssh.Session) { _ = sess.Exit(127) }, `umask 0777; eval "$0"`},
		"refused":      {nil, `eval "$0"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, starts := sftpServer(t, c.handle, func(s *server) {
				s.shell = []string{"/bin/sh", "-c", c.shell}
				if c.handle == nil {
					s.SubsystemHandlers = nil
				}
			})
			h := s.host(t, nil)
			h.tune.sftpStart = 200 * time.Millisecond
			local, data := randomFile(t, 3<<20+1)
			for n := range 2 {
				remote := filepath.Join(s.dir, fmt.Sprint("dir", n), "file")
				var last int64
				if err := h.Upload(t.Context(), local, remote, 0o750, "", func(sent int64) { last = sent }); err != nil {
					t.Fatal(err)
				}
				checkFile(t, remote, string(data), 0o750)
				checkOnly(t, filepath.Dir(remote), "file")
				if last != int64(len(data)) {
					t.Errorf("progress ended at %d of %d", last, len(data))
				}
			}
			checkOnly(t, filepath.Join(s.state, "incoming"))
			if n := starts.Load(); c.handle != nil && n != 1 {
				t.Errorf("SFTP was tried %d times", n)
			}
		})
	}
}

// writes is an SFTP server that only writes, in its own way.
type writes func(f *os.File, p []byte, off int64) (int, error)

type writeHandle struct {
	*os.File
	write writes
}

func (h writeHandle) WriteAt(p []byte, off int64) (int, error) { return h.write(h.File, p, off) }

func (w writes) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	if w == nil {
		return nil, sftp.ErrSSHFxPermissionDenied
	}
	f, err := os.OpenFile(r.Filepath, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return writeHandle{f, w}, err
}

func (writes) Fileread(*sftp.Request) (io.ReaderAt, error) { return nil, sftp.ErrSSHFxOpUnsupported }
func (writes) Filecmd(*sftp.Request) error                 { return sftp.ErrSSHFxOpUnsupported }
func (writes) Filelist(*sftp.Request) (sftp.ListerAt, error) {
	return nil, sftp.ErrSSHFxOpUnsupported
}

func (w writes) serve(sess gliderssh.Session) {
	srv := sftp.NewRequestServer(sess, sftp.Handlers{FileGet: w, FilePut: w, FileCmd: w, FileList: w})
	_ = srv.Serve() // ends with the session
	srv.Close()
}

// A failure that is no fault of SFTP's ends the upload with the host's reason; nothing appears, nothing is left.
func TestUploadFails(t *testing.T) {
	const half = 1 << 20
	small := `trap "" XFSZ; ulimit -f 128; eval "$0"` // stands in for a full disk
	for name, c := range map[string]struct {
		write writes
		shell string
		want  error
		words string
	}{
		"flipped bit": {func(f *os.File, p []byte, off int64) (int, error) {
			if off == 0 {
				p = append([]byte{p[0] ^ 1}, p[1:]...)
			}
			return f.WriteAt(p, off)
		}, `eval "$0"`, ErrChecksum, "sha256 is"},
		"cut short": {func(f *os.File, p []byte, off int64) (int, error) {
			if off >= half {
				return len(p), nil
			}
			return f.WriteAt(p, off)
		}, `eval "$0"`, ErrChecksum, "sha256 is"},
		"disk full": {func(f *os.File, p []byte, off int64) (int, error) {
			if off >= 64<<10 {
				return 0, errors.New("Failure")
			}
			return f.WriteAt(p, off)
		}, small, nil, "File too large"},
		"permission": {nil, `eval "$0"`, fs.ErrPermission, "create"},
	} {
		t.Run(name, func(t *testing.T) {
			s, starts := sftpServer(t, c.write.serve, func(s *server) { s.shell = []string{"/bin/sh", "-c", c.shell} })
			h := s.host(t, nil)
			local, _ := randomFile(t, 2*half)
			remote := filepath.Join(s.dir, "dir", "file")
			err := h.Upload(t.Context(), local, remote, 0o644, "", nil)
			if c.want == nil {
				c.want = err
			}
			if err == nil {
				t.Fatal("no error")
			}
			wantError(t, err, c.want, c.words, "cp1")
			wantAbsent(t, remote)
			checkOnly(t, filepath.Join(s.state, "incoming"))
			if h.noSFTP.Load() || starts.Load() != 1 {
				t.Errorf("SFTP started %d times, given up: %v", starts.Load(), h.noSFTP.Load())
			}
		})
	}
	t.Run("disk full for cat", func(t *testing.T) {
		s := startServer(t, func(s *server) { s.noSFTP, s.shell = true, []string{"/bin/sh", "-c", small} })
		local, _ := randomFile(t, 2*half)
		remote := filepath.Join(s.dir, "file")
		err := s.host(t, nil).Upload(t.Context(), local, remote, 0o644, "", nil)
		var exit *ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("got %v", err)
		}
		wantError(t, err, exit, "cp1", "File too large")
		wantAbsent(t, remote)
		checkOnly(t, filepath.Join(s.state, "incoming"))
	})
}

// A file that changes while it is sent is not put in place.
func TestUploadOfAChangingFile(t *testing.T) {
	s := startServer(t, nil)
	local, data := randomFile(t, 8<<20)
	remote := filepath.Join(s.dir, "file")
	once := sync.OnceFunc(func() {
		f, err := os.OpenFile(local, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		_, _ = f.WriteAt(bytes.Repeat([]byte("x"), 1000), int64(len(data)-1000))
	})
	err := s.host(t, nil).Upload(t.Context(), local, remote, 0o644, "", func(int64) { once() })
	wantError(t, err, ErrChecksum)
	wantAbsent(t, remote)
}

// A server that takes a file but never says so.
func TestUploadThatStops(t *testing.T) {
	for name, sftp := range map[string]bool{"SFTP": true, "cat": false} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, func(s *server) { s.noSFTP = true })
			if sftp {
				s = startServer(t, func(s *server) {
					s.noSFTP = true
					s.SubsystemHandlers = map[string]gliderssh.SubsystemHandler{"sftp": func(sess gliderssh.Session) {
						_, _ = sess.Write([]byte{0, 0, 0, 5, 2, 0, 0, 0, 3}) // its version
						_, _ = io.Copy(io.Discard, sess)
					}}
				})
			}
			h := s.host(t, nil)
			h.tune.stallLimit = 200 * time.Millisecond
			if !sftp {
				s.put(t, "cat", "#!/bin/sh\nsleep 300\n")
				if err := os.Chmod(s.files["cat"], 0o700); err != nil {
					t.Fatal(err)
				}
				h.tune.searchPath = s.dir + ":" + h.tune.searchPath
			}
			file := filepath.Join(s.dir, "file")
			if err := os.WriteFile(file, make([]byte, 100<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			err := h.Upload(t.Context(), file, filepath.Join(s.dir, "up"), 0o600, "", nil)
			wantError(t, err, context.DeadlineExceeded, "nothing has moved for 200ms")
		})
	}
}
