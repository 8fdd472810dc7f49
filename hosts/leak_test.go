package hosts

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whatever way a call ends, it gives back its channel and its goroutines while the connection lives on.
func TestNothingIsLeftBehind(t *testing.T) {
	s := startServer(t, nil)
	h := s.host(t, nil)
	target := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }).String()
	file := filepath.Join(s.dir, "file")
	if err := os.WriteFile(file, make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(context.Context){
		"runs":      func(ctx context.Context) { _, _ = h.Run(ctx, Cmd{Argv: []string{"true"}}) },
		"fails":     func(ctx context.Context) { _, _ = h.Run(ctx, Cmd{Argv: []string{"false"}, Sudo: true}) },
		"is absent": func(ctx context.Context) { _, _ = h.Run(ctx, Cmd{Argv: []string{"no-such-program"}}) },
		"passes its limit": func(ctx context.Context) {
			_, _ = h.Run(ctx, Cmd{Argv: []string{"sleep", "300"}, Timeout: 20 * time.Millisecond})
		},
		"is cancelled": func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_, _ = h.Script(ctx, Script{Text: "sleep 300 & sleep 300"})
		},
		"leaves a child": func(ctx context.Context) { _, _ = h.Script(ctx, Script{Text: "sleep 1 &"}) },
		"bad input": func(ctx context.Context) {
			_, _ = h.Run(ctx, Cmd{Argv: []string{"cat"}, Stdin: io.MultiReader(strings.NewReader("x"), broken{})})
		},
		"reads":   func(ctx context.Context) { _, _ = h.ReadFile(ctx, file) },
		"writes":  func(ctx context.Context) { _ = h.WriteFile(ctx, file+".written", []byte("x"), 0o600) },
		"uploads": func(ctx context.Context) { _ = h.Upload(ctx, file, filepath.Join(s.dir, "up"), 0o600, "", nil) },
		"tunnels": func(ctx context.Context) {
			if nc, err := h.DialContext(ctx, "tcp", target); err == nil {
				_, _ = nc.Write([]byte("x"))
				nc.Close()
			}
		},
		"tunnel refused": func(ctx context.Context) { _, _ = h.DialContext(ctx, "tcp", "127.0.0.1:1") },
		"unit": func(ctx context.Context) {
			_, _, _ = h.RunUnit(ctx, Unit{Name: "u", Argv: []string{"true"}}, nil)
		},
	}
	if _, err := h.Run(t.Context(), Cmd{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a quiet start", func() bool { return s.open.Load() == 0 })
	c, err := h.current()
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 3 {
		for _, way := range ways {
			all.Go(func() { way(t.Context()) })
		}
	}
	all.Wait()
	waitFor(t, "every channel to be closed", func() bool { return s.open.Load() == 0 && len(c.slots) == 0 })
	t.Cleanup(func() {
		if t.Failed() {
			buf := make([]byte, 1<<20)
			t.Logf("%d before:\n%s", before, buf[:runtime.Stack(buf, true)])
		}
	})
	waitFor(t, "every goroutine to end", func() bool { return runtime.NumGoroutine() <= before })
	if !c.alive() || s.dials.Load() != 1 {
		t.Errorf("alive %v, %d connections, want the one still alive", c.alive(), s.dials.Load())
	}
}

// broken is a standard input that cannot be read.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }
