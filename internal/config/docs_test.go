package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/internal/config"
)

// sshKeys are those that a cluster file may have under ssh, as its reader tells whoever gives another.
func sshKeys(t *testing.T) []string {
	t.Helper()
	_, err := config.Parse("c.yaml", []byte(ssh("nothingLikeIt: 1")), "/srv")
	if err == nil {
		t.Fatal("any key is taken")
	}
	_, known, found := strings.Cut(err.Error(), "known here: ")
	if !found {
		t.Fatalf("no keys in %v", err)
	}
	return strings.Split(known, ", ")
}

// docs/ssh.md has a row for every key there is, and for no other, in the reader's order.
func TestEveryKeyOfSSHIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/ssh.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1])
	}
	if d := cmp.Diff(sshKeys(t), rows); d != "" {
		t.Errorf("rows of docs/ssh.md (-keys +rows):\n%s", d)
	}
}

// What a text for people calls ssh.KEY is a key.
func TestKeysOfSSHInTexts(t *testing.T) {
	known := append(sshKeys(t), "md")
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../../README.md", "../../examples/*.yaml", "../../steps/*.go", "../../hosts/*.go"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %q, %v", pattern, more, err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bssh\.([a-z][A-Za-z]*)`).FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s speaks of ssh.%s, which is no key of the cluster file", file, m[1])
			}
		}
	}
}
