package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

func TestAnInterruptedDemoLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelling{word: "A simulated cluster", cancel: cancel}
	code := Run(ctx, []string{"kuberung", "demo"}, Process{In: strings.NewReader(""), Out: out, Err: io.Discard})
	if code == codeDone {
		t.Error("the demo says that it is done")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if !out.seen {
		t.Error("it never said what it shows")
	}
}

// cancelling ends a run as soon as it has said a word.
type cancelling struct {
	word   string
	cancel func()
	seen   bool
}

func (c *cancelling) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.word) {
		c.seen = true
		c.cancel()
	}
	return len(p), nil
}
