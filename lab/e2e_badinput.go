package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Exit codes of the tool, as its documentation lists them.
const (
	exitBadFile = 2 // bad usage or a bad cluster file
	exitCheckNo = 3 // a check said no
)

// badInputCase is one way in which what the operator gives is wrong.
type badInputCase struct {
	name string
	edit func(file string) string // makes the lab's cluster file wrong; nil leaves it
	args []string                 // added to the command line
	code int
	says []string // what the message must contain: a host, a file, a version
	// at is a piece of the edited file; the message must name the file and the line of this piece. Empty: it need not.
	at string
}

// badInput gives the tool one wrong thing after the other. Each must be refused with its code and by name, and nothing may
// have changed on any host or node.
func badInput(ctx context.Context, b *bed) (err error) {
	stranger := strangerTo(b.lab.Shape)
	knows, err := b.startStranger(ctx, stranger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.removeBeside(ctx, stranger)) }()
	cases, err := b.badInputCases(stranger, knows)
	if err != nil {
		return err
	}
	before, err := b.fingerprint(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range cases {
		err := b.refused(ctx, c)
		after, looked := b.fingerprint(ctx)
		if looked == nil {
			looked = unchanged(before, after)
		}
		if err = errors.Join(err, looked); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// refused runs the most dangerous command there is with a bad input.
func (b *bed) refused(ctx context.Context, c badInputCase) error {
	text, err := os.ReadFile(b.clusterFile)
	if err != nil {
		return err
	}
	file := string(text)
	if c.edit != nil {
		if file = c.edit(file); file == string(text) {
			return errors.New("the case does not change the cluster file: its format is not the one expected here")
		}
	}
	path := filepath.Join(b.dir, c.name+".yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		return err
	}
	run, err := b.runTool(ctx, readLimit, c.name, append([]string{"upgrade", "-f", path, "--yes"}, c.args...)...)
	if err != nil {
		return err
	}
	b.measured.add(c.name+" refused in", run.took)
	says := c.says
	if c.at != "" {
		says = append(says, fmt.Sprintf("%s:%d", filepath.Base(path), lineOf(file, c.at)))
	}
	errs := []error{run.want(c.code)}
	for _, piece := range says {
		if !strings.Contains(run.said(), piece) {
			errs = append(errs, fmt.Errorf("the message does not name %q: %s", piece, run.lastWords()))
		}
	}
	return errors.Join(errs...)
}

// badInputCases are all of them; those that need files of their own get them here. knows is the path of a known_hosts file
// with the stranger in it.
func (b *bed) badInputCases(stranger host, knows string) ([]badInputCase, error) {
	worker := b.nodes[len(b.nodes)-1]
	otherKeys, err := b.otherHostKey(worker)
	if err != nil {
		return nil, err
	}
	missing, err := b.brokenArtifacts("missing", os.Remove)
	if err != nil {
		return nil, err
	}
	changed, err := b.brokenArtifacts("changed", func(path string) error {
		return errors.Join(os.Remove(path), os.WriteFile(path, []byte("not a kubelet"), 0o755))
	})
	if err != nil {
		return nil, err
	}
	ownKeys := filepath.Join(b.lab.State, "known_hosts")
	asWorker := func(name, address string) func(string) string {
		return with("workers:", "  - {name: "+name+", address: "+address+", role: worker}\nworkers:")
	}
	return []badInputCase{
		{name: "unknown-key", edit: with("workers:", "worker: {batch: 1}\nworkers:"), code: exitBadFile, at: "worker: {"},
		{name: "wrong-type", edit: with("batch: 1", "batch: two"), code: exitBadFile, at: "batch: two"},
		{name: "duplicate-host", edit: asWorker(worker.Name, "10.77.0.98"), code: exitBadFile, at: "10.77.0.98", says: []string{worker.Name}},
		{name: "unreachable-host", edit: with(worker.Address, "10.77.0.250"), code: exitCheckNo, says: []string{worker.Name}},
		{name: "wrong-host-key", edit: with(ownKeys, otherKeys), code: exitCheckNo, says: []string{worker.Name, "key"}},
		{name: "two-minors-up", args: []string{"--to", "v1.37.2"}, code: exitCheckNo, says: []string{"v1.37.2"}},
		{name: "target-older", args: []string{"--to", "v1.34.4"}, code: exitCheckNo, says: []string{"v1.34.4", b.from}},
		{name: "artifact-missing", edit: withLine("artifacts:", missing), code: exitCheckNo, says: []string{"kubelet"}},
		{name: "artifact-changed", edit: withLine("artifacts:", changed), code: exitCheckNo, says: []string{"kubelet"}},
		{name: "not-a-node", edit: func(file string) string {
			return with(ownKeys, knows)(asWorker(stranger.Name, stranger.Address)(file))
		}, code: exitCheckNo, says: []string{stranger.Name}},
	}, nil
}

// with replaces a text where it stands first.
func with(old, new string) func(string) string {
	return func(file string) string { return strings.Replace(file, old, new, 1) }
}

// withLine replaces the value on the line that begins with key.
func withLine(key, value string) func(string) string {
	return func(file string) string {
		lines := strings.Split(file, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, key) {
				lines[i] = key + " " + value
			}
		}
		return strings.Join(lines, "\n")
	}
}

// lineOf is the number of the first line that contains piece, counted from 1; 0 when none does.
func lineOf(file, piece string) int {
	before, _, found := strings.Cut(file, piece)
	if !found {
		return 0
	}
	return strings.Count(before, "\n") + 1
}
