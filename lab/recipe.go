package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed files
var files embed.FS

// embedded returns the contents of files by path: part of the recipe of everything made from them.
func embedded() (map[string]string, error) {
	all := map[string]string{}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		all[path] = string(text)
		return err
	})
	return all, err
}

// recipe says how Go modules become static binaries.
type recipe struct {
	Name     string   // of the folder in the cache
	Modules  []module // what to require; the first one's go.mod and go.sum seed the build
	Packages []string // the main packages; "." is Main
	Main     string   // source of a main package of ours, for modules whose own one links too much
	Tags     string
	Stamp    map[string]string // values of string variables, set by the linker
	Rename   map[string]string // binaries whose name is not the last element of their package's path
}

// ldflags is the linker's argument for the stamps, in a fixed order.
func (r recipe) ldflags() string {
	words := []string{"-s", "-w"}
	for _, name := range slices.Sorted(maps.Keys(r.Stamp)) {
		words = append(words, "-X "+name+"="+r.Stamp[name])
	}
	return strings.Join(words, " ")
}

// build returns the folder with r's binaries, building them if the cache does not hold them.
func (r recipe) build(ctx context.Context, c cache) (string, error) {
	return c.product(filepath.Join("bin", r.Name+"-"+digest(r)), func(tmp string) error {
		say("building %s", r.Name)
		source, err := os.MkdirTemp("", "kuberung-lab-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(source)
		if err := r.writeSource(ctx, source); err != nil {
			return err
		}
		if err := os.MkdirAll(tmp, 0o755); err != nil {
			return err
		}
		argv := []string{"go", "build", "-mod=mod", "-trimpath", "-buildvcs=false", "-tags", r.Tags, "-ldflags", r.ldflags(), "-o", tmp + "/"}
		_, err = command{
			Argv:  append(argv, r.Packages...),
			Dir:   source,
			Env:   []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"},
			Log:   filepath.Join(c.dir, "logs", r.Name+".log"),
			Limit: time.Hour,
		}.run(ctx)
		if err != nil {
			return err
		}
		for built, name := range r.Rename {
			if err := os.Rename(filepath.Join(tmp, built), filepath.Join(tmp, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeSource writes the throw-away module of r into dir.
func (r recipe) writeSource(ctx context.Context, dir string) error {
	var base string
	for _, m := range r.Modules { // all of them: -mod=mod does not download a second module's go.sum lines by itself
		path, err := download(ctx, m)
		if err != nil {
			return err
		}
		if base == "" {
			base = path
		}
	}
	modFile, err := os.ReadFile(filepath.Join(base, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(base, "go.sum"))
	if err != nil {
		return err
	}
	written := map[string]string{"go.mod": goMod(string(modFile), r.Modules), "go.sum": string(sums)}
	if r.Main != "" {
		written["main.go"] = r.Main
	}
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// download fetches m with the Go command and returns the folder of its source.
func download(ctx context.Context, m module) (string, error) {
	out, err := command{
		Argv:  []string{"go", "mod", "download", "-json", m.Path + "@" + m.Version},
		Dir:   os.TempDir(), // outside any module
		Limit: 15 * time.Minute,
	}.run(ctx)
	if err != nil {
		return "", err
	}
	var found struct{ Dir, Error string }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return "", fmt.Errorf("download %s: %w", m.Path, err)
	}
	if found.Error != "" {
		return "", fmt.Errorf("download %s: %s", m.Path, found.Error)
	}
	return found.Dir, nil
}
