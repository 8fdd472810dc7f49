package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kuberung/kuberung"

// allowed says who may import what. A package imports the standard library and what its rows
// name, nothing else: a new dependency is a new row with a reason. Names are those of packages and
// of all below them; our own are relative to the module.
var allowed = []struct{ pkg, imports, because string }{
	// engine has no row: plans and how they run must be readable, and testable, without the field.

	{"hosts", "golang.org/x/crypto", "SSH is the only door"},
	{"hosts", "github.com/pkg/sftp", "files travel over the same connection"},
	{"hosts", "github.com/skeema/knownhosts", "a host proves who it is, whatever type of key it offers first"},
	{"hosts", "github.com/kevinburke/ssh_config", "OpenSSH's configuration counts where there is no ssh client to ask for it"},
	{"hosts", "github.com/gofrs/flock", "known_hosts is written by others too"},
	{"hosts", "al.essio.dev/pkg/shellescape", "commands are lists of arguments, quoted in one place"},

	{"drain", "k8s.io", "evictions are those of kubectl drain"},
	{"drain", "golang.org/x/sync", "pods are evicted side by side, within a limit"},

	{"etcdbackup", "go.etcd.io", "snapshots are taken and checked by etcd's own code"},
	{"etcdbackup", "go.uber.org/zap", "etcd's client wants a logger of this type, to be told to be quiet"},
	{"etcdbackup", "github.com/google/renameio", "a snapshot is there whole or not at all"},
	{"etcdbackup", "google.golang.org/grpc", "etcd is dialled through SSH"},

	{"steps", "engine", "steps are what the engine runs"},
	{"steps", "hosts", "the only place that joins the others"},
	{"steps", "drain", "the only place that joins the others"},
	{"steps", "etcdbackup", "the only place that joins the others"},
	{"steps", "internal/config", "a plan is a function of the cluster file, plain data"},
	{"steps", "k8s.io", "facts of the cluster come from its API"},
	{"steps", "sigs.k8s.io/yaml", "kubeadm's configuration is a Kubernetes object"},
	{"steps", "golang.org/x/sync", "all hosts are observed at once"},

	{"internal/config", "go.yaml.in/yaml", "the only parser that gives every error with line and column"},

	{"internal/ui", "engine", "events are what it shows"},

	{"internal/cli", "engine", "runs the plan"},
	{"internal/cli", "steps", "makes the plan"},
	{"internal/cli", "hosts", "opens and closes the connections, and asks for their secrets"},
	{"internal/cli", "golang.org/x/sys", "a password is typed without echo, and nobody has to answer"},
	{"internal/cli", "internal", "the cluster file in, events out"},
	{"internal/cli", "github.com/urfave/cli", "commands and flags"},
	{"internal/cli", "github.com/google/renameio", "the record of a run is there whole or not at all"},
	{"internal/cli", "k8s.io/klog", "libraries must not write to the terminal"},
	{"internal/cli", "k8s.io/client-go/rest", "nor must the API's warnings"},

	{"internal/sim", "engine", "plans run for real, on hosts that are not"},
	{"internal/sim", "steps", "makes the plan that is run"},
	{"internal/sim", "drain", "the annotation of a window is part of a Node's state"},
	{"internal/sim", "internal/config", "the cluster file of the cluster it makes up"},
	{"internal/sim", "golang.org/x/crypto", "the other end of SSH"},
	{"internal/sim", "github.com/pkg/sftp", "the other end of uploads"},
	{"internal/sim", "k8s.io", "the API's objects"},
	{"internal/sim", "sigs.k8s.io/yaml", "kubeadm's configuration is a Kubernetes object"},
	{"internal/sim", "go.etcd.io", "members that speak etcd's protocol, and a snapshot that its code takes for real"},
	{"internal/sim", "go.uber.org/zap", "etcd's storage wants a logger of this type, to be told to be quiet"},
	{"internal/sim", "google.golang.org/grpc", "the other end of etcd's client"},

	{".", "internal/cli", "main is streams, signals and the exit code"},

	{"lab", "lab", "made of programs of its own"},
	{"lab", "k8s.io", "looks at the cluster on its own account, not through the product it tests"},
	{"lab", "go.etcd.io", "the same for etcd"},
	{"lab", "go.uber.org/zap", "etcd's client wants a logger of this type, to be told to be quiet"},
	{"lab", "golang.org/x", "keys for SSH, limits for builds"},
	{"lab", "sigs.k8s.io/yaml", "manifests"},
}

// pkg is what `go list -json` tells of a package.
type pkg struct {
	ImportPath string
	Imports    []string // those of its tests are not in here
}

func TestImports(t *testing.T) {
	packages := list(t)
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages, want all of the module", len(packages))
	}
	for _, v := range strayImports(packages) {
		t.Error(v)
	}
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// strayImports gives a line for each import that no row allows.
func strayImports(packages []pkg) []string {
	var stray []string
	for _, p := range packages {
		from := relative(p.ImportPath)
		for _, i := range p.Imports {
			to := relative(i)
			if to == i && !strings.Contains(strings.Split(i, "/")[0], ".") {
				continue // the standard library
			}
			if !mayImport(from, to) {
				stray = append(stray, fmt.Sprintf("%s imports %s: no row of the table allows it", from, to))
			}
		}
	}
	return stray
}

func mayImport(from, to string) bool {
	for _, row := range allowed {
		if within(from, row.pkg) && within(to, row.imports) {
			return true
		}
	}
	return false
}

// within reports whether p is dir or below it. The root is only itself.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

func relative(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func TestStrayImportsAreFound(t *testing.T) {
	got := strayImports([]pkg{
		{module + "/engine", []string{"context", "k8s.io/api/core/v1"}},
		{module + "/drain", []string{"k8s.io/kubectl/pkg/drain", module + "/hosts"}},
		{module + "/draining", []string{"k8s.io/kubectl/pkg/drain"}},
		{module, []string{module + "/internal/cli", module + "/steps"}},
		{module + "/lab/e2e", []string{module + "/lab/probe", module + "/internal/config"}},
	})
	want := []string{
		"engine imports k8s.io/api/core/v1",
		"drain imports hosts",
		"draining imports k8s.io/kubectl/pkg/drain",
		". imports steps",
		"lab/e2e imports internal/config",
	}
	for i := range want {
		want[i] += ": no row of the table allows it"
	}
	if !slices.Equal(got, want) {
		t.Errorf("stray imports are %q, want %q", got, want)
	}
}

// forbidden is what only main.go, internal/ui, the lab and tests may use. The key is a package,
// the values are its names; none means all of them.
var forbidden = map[string]struct {
	names   []string
	because string
}{
	"fmt":     {[]string{"Print", "Printf", "Println"}, "what people read goes through internal/ui"},
	"log":     {nil, "what people read goes through internal/ui"},
	"os":      {[]string{"Exit", "Stdin", "Stdout", "Stderr"}, "streams and the exit code are main's"},
	"time":    {[]string{"Sleep"}, "a wait is for a condition, and ends with the context"},
	"context": {[]string{"Background", "TODO"}, "a call that nobody can stop"},
}

func TestForbiddenCalls(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && file != "."
			if hidden || d.Name() == "testdata" || file == "lab" || file == filepath.Join("internal", "ui") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || file == "main.go" {
			return nil
		}
		files++
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, v := range forbiddenIn(t, file, string(source)) {
			t.Error(v)
		}
		return nil
	})
	if err != nil || files < 10 {
		t.Fatalf("looked at %d files, %v, want all of the module", files, err)
	}
}

// forbiddenIn gives a line for each forbidden name that the source of file uses.
func forbiddenIn(t *testing.T, file, source string) []string {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]string{} // by the name they have in this file
	for _, i := range tree.Imports {
		importPath := strings.Trim(i.Path.Value, `"`)
		name := path.Base(importPath)
		if i.Name != nil {
			name = i.Name.Name
		}
		imported[name] = importPath
	}
	var found []string
	ast.Inspect(tree, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		rule, ok := forbidden[imported[x.Name]]
		if ok && (rule.names == nil || slices.Contains(rule.names, selector.Sel.Name)) {
			found = append(found, fmt.Sprintf("%s: %s.%s: %s", set.Position(n.Pos()), imported[x.Name], selector.Sel.Name, rule.because))
		}
		return true
	})
	return found
}

func TestForbiddenCallsAreFound(t *testing.T) {
	got := forbiddenIn(t, "a.go", `package a

import (
	"context"
	"fmt"
	"log"
	stdtime "time"
)

func f(time interface{ Sleep(int) }) {
	fmt.Println(fmt.Sprint(1))
	time.Sleep(1)
	stdtime.Sleep(1)
	log.Fatal(context.Background())
}
`)
	var places []string
	for _, line := range got {
		places = append(places, strings.Join(strings.Split(line, ": ")[:2], " "))
	}
	want := []string{"a.go:11:2 fmt.Println", "a.go:13:2 time.Sleep", "a.go:14:2 log.Fatal", "a.go:14:12 context.Background"}
	if !slices.Equal(places, want) {
		t.Errorf("found %q, want %q", places, want)
	}
}
