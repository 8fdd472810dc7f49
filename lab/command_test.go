package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFailedCommandTellsItsLastWordsAndLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "logs", "sh.log")
	out, err := command{Argv: []string{"sh", "-c", "echo printed; echo why >&2; exit 3"}, Log: log}.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "why") || !strings.Contains(err.Error(), log) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error is %v, want what it said, where the log is, and its status", err)
	}
	if out != "printed\n" {
		t.Errorf("output is %q", out)
	}
	kept, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(kept), "printed\nwhy\n") {
		t.Errorf("log holds %q, %v", kept, err)
	}
}

func TestCommandOverItsLimitSaysSo(t *testing.T) {
	_, err := command{Argv: []string{"sleep", "60"}, Limit: 10 * time.Millisecond}.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "took longer than 10ms") {
		t.Errorf("error is %v, want the limit", err)
	}
}

func TestAwaitEndsWithTheLastReason(t *testing.T) {
	asked := 0
	err := await(t.Context(), "the thing", 20*time.Millisecond, func(context.Context) error {
		asked++
		return fmt.Errorf("reason %d", asked)
	})
	if err == nil || err.Error() != "the thing: not within 20ms, last: reason 1" {
		t.Errorf("error is %v", err)
	}
	stop, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by hand")
	cancel(stopped)
	if err := await(stop, "the thing", time.Minute, func(context.Context) error { return errors.New("not yet") }); !errors.Is(err, stopped) {
		t.Errorf("a stopped wait gave %v, want the reason of the stop", err)
	}
}
