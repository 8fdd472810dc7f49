package hosts

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	gliderssh "github.com/gliderlabs/ssh"
)

// frayed is a line to the server that breaks whenever as many bytes have been sent, counted over all connections.
type frayed struct {
	mu   sync.Mutex
	cuts []int64
	sent int64
	each int64 // every connection breaks after so many bytes; 0: none does
}

func (f *frayed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &frayedConn{Conn: nc, line: f, left: f.each}, err
}

func (f *frayed) total() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent
}

type frayedConn struct {
	net.Conn
	line *frayed
	left int64
}

func (c *frayedConn) Write(p []byte) (int, error) {
	n := c.line.take(c, int64(len(p)))
	written, err := c.Conn.Write(p[:n])
	if err == nil && n < int64(len(p)) {
		c.Close()
		err = syscall.EPIPE
	}
	return written, err
}

// take tells how many of want bytes may go.
func (f *frayed) take(c *frayedConn, want int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := want
	if len(f.cuts) > 0 && f.sent+n > f.cuts[0] {
		n = f.cuts[0] - f.sent
		f.cuts = f.cuts[1:]
	}
	if f.each > 0 {
		n = min(n, c.left)
		c.left -= n
	}
	f.sent += n
	return n
}

// A line that breaks once, wherever, costs nothing but time: one cut at each of many bytes of an upload.
func TestUploadCutAtAnyByte(t *testing.T) {
	local, data := randomFile(t, 1<<20)
	var line *frayed
	var begun, over atomic.Int64 // of SFTP, in bytes of the line
	s, _ := sftpServer(t, func(sess gliderssh.Session) {
		begun.Store(line.total())
		serveSFTP(sess)
		over.Store(line.total())
	}, nil)
	upload := func(n int, cuts ...int64) (remote string, connected, all int64, err error) {
		line = &frayed{cuts: cuts}
		h := s.host(t, func(c *Config) { c.Dial = line.dial })
		defer h.Close()
		if err := h.Connect(t.Context()); err != nil {
			return "", 0, 0, err
		}
		connected = line.total()
		remote = filepath.Join(s.dir, fmt.Sprint("dir", n), "file")
		err = h.Upload(t.Context(), local, remote, 0o644, "", nil)
		return remote, connected, line.total(), err
	}
	_, connected, all, err := upload(0)
	if err != nil {
		t.Fatal(err)
	}
	first, last := begun.Load(), over.Load()
	cuts := []int64{0, connected, first - 1, first, first + 30, first + 100, last - 30000, last - 100, last, (last + all) / 2, all - 100}
	for n := range int64(8) {
		cuts = append(cuts, first+(last-first)*(n+1)/9)
	}
	slices.Sort(cuts)
	for n, cut := range cuts {
		remote, _, _, err := upload(n+1, cut)
		if err != nil {
			t.Errorf("cut at %d of %d: %v", cut, all, err)
			continue
		}
		checkFile(t, remote, string(data), 0o644)
		// Root's half of the attempt that was cut may still be at it.
		waitFor(t, "a directory with nothing but the file", func() bool {
			entries, err := os.ReadDir(filepath.Dir(remote))
			return err == nil && len(entries) == 1
		})
	}
}

// A line that always breaks ends the upload after three transfers.
func TestUploadOverALineThatAlwaysBreaks(t *testing.T) {
	local, _ := randomFile(t, 4<<20)
	s, starts := sftpServer(t, serveSFTP, nil)
	line := &frayed{each: 2 << 20}
	h := s.host(t, func(c *Config) { c.Dial = line.dial })
	remote := filepath.Join(s.dir, "dir", "file")
	begins := 0
	err := h.Upload(t.Context(), local, remote, 0o644, "", func(sent int64) {
		if sent == 0 {
			begins++
		}
	})
	wantError(t, err, ErrConnLost, "upload", "cp1")
	if starts.Load() != uploadAttempts || begins != uploadAttempts {
		t.Errorf("%d transfers, %d of them told, want %d", starts.Load(), begins, uploadAttempts)
	}
	wantAbsent(t, filepath.Dir(remote))
	if entries, err := os.ReadDir(filepath.Join(s.state, "incoming")); err != nil || len(entries) > 1 {
		t.Errorf("%d transfers left behind, %v", len(entries), err)
	}
}

func TestUploadOfAnUnchangedFileSendsNothing(t *testing.T) {
	local, _ := randomFile(t, 1<<20)
	s := startServer(t, nil)
	line := &frayed{}
	h := s.host(t, func(c *Config) { c.Dial = line.dial })
	for n := range 2 {
		before := line.total()
		if err := h.Upload(t.Context(), local, filepath.Join(s.dir, "f"), 0o644, "", nil); err != nil {
			t.Fatal(err)
		}
		if sent := line.total() - before; sent > 1<<20 != (n == 0) || n == 1 && sent > 20_000 {
			t.Errorf("upload %d sent %d bytes", n+1, sent)
		}
	}
}
