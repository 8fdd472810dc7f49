package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithDependencies(t *testing.T) {
	status := `Package: iptables
Status: install ok installed
Depends: libxtables12 (= 1.8.9-2), netbase (>= 6), libc6 (>= 2.34) | musl

Package: libxtables12
Depends: libc6 (>= 2.33)
Description: a library
 Depends: this is only text

Package: libc6
Pre-Depends: libgcc-s1
Depends: not-installed

Package: libgcc-s1

Package: unrelated
Depends: libc6
`
	want := []string{"iptables", "libxtables12", "libc6", "libgcc-s1"}
	if diff := cmp.Diff(want, withDependencies(status, []string{"iptables"})); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
}

func TestPackageEntriesFollowTheMergedFolders(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"usr/lib", "usr/share/doc", "var/lib/dpkg/info"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	written := map[string]string{
		"usr/lib/libmnl.so.0.2":                "library",
		"usr/share/doc/changelog":              "not wanted",
		"var/lib/dpkg/info/libmnl0:amd64.list": "/.\n/lib\n/lib/libmnl.so.0\n/lib/libmnl.so.0.2\n/usr/share/doc/changelog\n",
	}
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("libmnl.so.0.2", filepath.Join(root, "usr/lib/libmnl.so.0")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/lib", filepath.Join(root, "lib")); err != nil {
		t.Fatal(err)
	}
	got, err := packageEntries(root, "libmnl0")
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{Path: "usr/lib/libmnl.so.0", Link: "libmnl.so.0.2"},
		{Path: "usr/lib/libmnl.so.0.2", Mode: 0o644, Source: filepath.Join(root, "usr/lib/libmnl.so.0.2")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
