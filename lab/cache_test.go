package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

func TestProductIsMadeOnce(t *testing.T) {
	c, made := cache{t.TempDir()}, 0
	for range 2 {
		path, err := c.product("bin/tool", func(tmp string) error { made++; return os.WriteFile(tmp, []byte("tool"), 0o755) })
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "tool" {
			t.Fatalf("product holds %q, %v", text, err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}
}

func TestInterruptedProductIsMadeAgain(t *testing.T) {
	c, broken := cache{t.TempDir()}, errors.New("power failure")
	path, err := c.product("bin", func(tmp string) error {
		if err := os.MkdirAll(tmp+"/half", 0o755); err != nil {
			t.Fatal(err)
		}
		return broken
	})
	if !errors.Is(err, broken) || path != "" {
		t.Fatalf("got %q, %v, want the error of the build", path, err)
	}
	path, err = c.product("bin", func(tmp string) error { return os.Mkdir(tmp, 0o755) })
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
		t.Errorf("the second build found what the first one left: %v, %v", left, err)
	}
}

func TestLockWaitsForItsHolder(t *testing.T) {
	c := cache{t.TempDir()}
	release, err := c.lock(t.Context(), "build.lock")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.lock(short, "build.lock"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held lock gave %v, want the deadline", err)
	}
	release()
	if release, err = c.lock(t.Context(), "build.lock"); err != nil {
		t.Errorf("a free lock gave %v", err)
	} else {
		release()
	}
}

func TestDigestTellsRecipesApart(t *testing.T) {
	if kubernetesDigest := digest(kubernetesRecipe("v1.36.1")); kubernetesDigest == digest(kubernetesRecipe("v1.36.3")) {
		t.Error("two versions have one digest")
	} else if kubernetesDigest != digest(kubernetesRecipe("v1.36.1")) {
		t.Error("one recipe has two digests")
	}
}
