package config

import (
	"fmt"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v4"
)

// fileUse is a local file that the cluster file counts on.
type fileUse struct {
	path string
	key  string
	at   Position
	ok   func(fs.FileInfo) string // completes the sentence "<path> …" when it is not; "" means it is
}

// localFile reads a path that checkFiles will look at.
func (r *reader) localFile(to *string, ok func(fs.FileInfo) string) readValue {
	return func(n *yaml.Node, path string) {
		var file string
		if r.path(&file)(n, path); file != "" {
			*to = file
			r.files = append(r.files, fileUse{file, path, r.at(n), ok})
		}
	}
}

// checkFiles complains about local files that are not there or not as they must be, each place once.
func (r *reader) checkFiles() {
	seen := map[string]bool{}
	for _, f := range r.files {
		problem := f.problem()
		if problem == "" || seen[problem] {
			continue
		}
		seen[problem] = true
		r.errs = append(r.errs, Error{f.at, f.key + ": " + problem})
	}
}

func (f fileUse) problem() string {
	info, err := os.Stat(f.path)
	switch {
	case os.IsNotExist(err):
		return "there is no file " + f.path
	case err != nil:
		return err.Error()
	}
	if problem := f.ok(info); problem != "" {
		return f.path + " " + problem
	}
	return ""
}

func exists(info fs.FileInfo) string {
	if info.IsDir() {
		return "is a directory"
	}
	return ""
}

// isSecret holds for a file that nobody but its owner can read.
func isSecret(info fs.FileInfo) string {
	if mode := info.Mode().Perm(); !info.IsDir() && mode&0o077 != 0 {
		return fmt.Sprintf("can be read by others (mode %04o): chmod 600 it", mode)
	}
	return exists(info)
}
