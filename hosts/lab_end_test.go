//go:build lab

package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

// sleeper is an argument of sleep by which its process can be told from all others.
func sleeper() string { return fmt.Sprintf("4%09d", rand.Uint32()%1e9) }

func endKillsTree(t *testing.T, box labHost, h *hosts.Host) {
	both(t, func(t *testing.T, sudo bool) {
		mark := sleeper()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := h.Script(ctx, hosts.Script{Text: `sh -c 'sleep "$1"; :' sh "$1" & sleep "$1"`, Args: []string{mark}, Sudo: sudo})
			done <- err
		}()
		running := func() (string, bool) {
			out, _ := box.try(`pgrep -f "$1" -a | grep -v pgrep`, "^sleep "+mark)
			return out, strings.Count(out, "\n") == 2
		}
		eventually(t, "both processes run", 30*time.Second, func() (string, bool) {
			if len(done) > 0 {
				t.Fatalf("the call ended at once: %v", <-done)
			}
			return running()
		})
		cancel()
		began := time.Now()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the call gave %v", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the call ended %v after its context", took)
		}
		eventually(t, "the tree is gone", 10*time.Second, func() (string, bool) { out, _ := running(); return out, out == "" })
	})
}

func backgroundChild(t *testing.T, box labHost, h *hosts.Host) {
	both(t, func(t *testing.T, sudo bool) {
		mark := sleeper()
		t.Cleanup(func() { _, _ = box.try(`pkill -f "$1"`, "^sleep "+mark) })
		began := time.Now()
		out, err := h.Script(t.Context(), hosts.Script{Text: `sleep "$1" & echo done`, Args: []string{mark}, Sudo: sudo})
		if err != nil || string(out) != "done\n" {
			t.Errorf("Script = %q, %v", out, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %v: the child was waited for", took)
		}
	})
}
