package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

func TestDigestTrailer(t *testing.T) {
	body := bytes.Repeat([]byte("etcd"), 256)
	sum := sha256.Sum256(body)
	whole := append(bytes.Clone(body), sum[:]...)
	flipped := bytes.Clone(whole)
	flipped[100] ^= 1
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"whole", whole, ""},
		{"a bit flipped", flipped, "ends with"},
		{"truncated", whole[:len(whole)-1], "no digest"},
		{"without a digest", body, "no digest"},
		{"empty", nil, "no digest"},
	} {
		path := filepath.Join(t.TempDir(), "snapshot.db")
		if err := os.WriteFile(path, test.data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := digestTrailer(path)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestStoreHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	store, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		if err := bucket.Put([]byte("1"), []byte("\x0a/registry/a\x12 content-of-a")); err != nil {
			return err
		}
		return bucket.Put([]byte("2"), []byte("\x0a/registry/b\x12 content-of-b"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := storeHolds(path, "/registry/a", "content-of-a"); err != nil {
		t.Error(err)
	}
	if err := storeHolds(path, "/registry/a", "content-of-b"); err == nil {
		t.Error("the content of another object was taken for this one's")
	}
}

func TestSameRunning(t *testing.T) {
	before := map[string]string{"cp-1 kubelet": "MainPID=7", "kube-system/etcd etcd": "x restarts 0"}
	for _, test := range []struct {
		name  string
		after map[string]string
		want  string
	}{
		{"all the same", map[string]string{"cp-1 kubelet": "MainPID=7", "kube-system/etcd etcd": "x restarts 0"}, ""},
		{"restarted", map[string]string{"cp-1 kubelet": "MainPID=8", "kube-system/etcd etcd": "x restarts 0"}, "cp-1 kubelet was MainPID=7"},
		{"gone", map[string]string{"cp-1 kubelet": "MainPID=7"}, "etcd etcd was"},
		{"new", map[string]string{"cp-1 kubelet": "MainPID=7", "kube-system/etcd etcd": "x restarts 0", "default/web web": "y"}, "default/web web is new"},
	} {
		err := sameRunning(before, test.after)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestUnchanged(t *testing.T) {
	before := map[string]string{"host cp-1": "a 1\nb 2\n"}
	if err := unchanged(before, map[string]string{"host cp-1": "a 1\nb 2\n"}); err != nil {
		t.Error(err)
	}
	err := unchanged(before, map[string]string{"host cp-1": "a 1\nb 3\n"})
	if err == nil || !strings.Contains(err.Error(), "-b 2 +b 3") {
		t.Errorf("unchanged = %v, want the line that differs", err)
	}
	if err := unchanged(before, map[string]string{}); err == nil {
		t.Error("a host that is gone was not noticed")
	}
}

func TestLineOf(t *testing.T) {
	file := "a: 1\nworkers:\n  batch: two\n"
	for piece, want := range map[string]int{"a: 1": 1, "batch": 3, "absent": 0} {
		if got := lineOf(file, piece); got != want {
			t.Errorf("lineOf %q = %d, want %d", piece, got, want)
		}
	}
}

// Every case can be reached by name and shape, and an unknown one is an error, not a pass.
func TestEndToEndIsFound(t *testing.T) {
	var out strings.Builder
	if err := e2e(t.Context(), &out, "climb", "vast"); err == nil || strings.Contains(out.String(), "passed") {
		t.Errorf("an unknown shape: %v, %q, want an error and no verdict", err, out.String())
	}
	listEndToEnds(&out)
	for _, c := range endToEnds {
		if !strings.Contains(out.String(), c.name+" ") || c.limit == 0 || c.run == nil || len(c.shapes) == 0 {
			t.Errorf("case %q is not listed or not complete", c.name)
		}
		for _, version := range []string{c.from, c.to} {
			if _, err := findRelease(version); err != nil {
				t.Errorf("case %s: %v", c.name, err)
			}
		}
	}
}
