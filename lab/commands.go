package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// labCommand is one word that the lab understands.
type labCommand struct {
	name, does string
	run        func(ctx context.Context, l *lab, args []string) error
}

// labCommands are all of them, in the order in which they are listed.
var labCommands = []labCommand{
	{"build", "build binaries and images of the versions named, or of all", buildAll},
	{"up", "bring the lab up, or go on with it", alone((*lab).up)},
	{"status", "show hosts, nodes and versions", func(ctx context.Context, l *lab, _ []string) error { return l.status(ctx, os.Stdout) }},
	{"save", "keep a copy of the lab as it is", alone((*lab).save)},
	{"load", "put the saved lab back", alone((*lab).load)},
	{"down", "remove the lab; builds and saves stay", downAll},
	{"purge", "remove labs, saves and images of hosts; builds stay", purge},
	{"e2e", "run the real-cluster cases: all, or those of CASE and LAB", func(ctx context.Context, _ *lab, args []string) error {
		return e2e(ctx, os.Stdout, append(args, os.Getenv("CASE"))[0], os.Getenv("LAB"))
	}},
	{"e2e-list", "list them", func(context.Context, *lab, []string) error { listEndToEnds(os.Stdout); return nil }},
}

// alone makes a command of do that waits for other commands on the same lab.
func alone(do func(*lab, context.Context) error) func(context.Context, *lab, []string) error {
	return func(ctx context.Context, l *lab, _ []string) error {
		return l.alone(ctx, func() error { return do(l, ctx) })
	}
}

// run runs the command that args name.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		usage(os.Stderr)
		return errors.New("which command?")
	}
	i := slices.IndexFunc(labCommands, func(c labCommand) bool { return c.name == args[0] })
	if i < 0 {
		usage(os.Stderr)
		return fmt.Errorf("no command is called %q", args[0])
	}
	s, err := readSettings(os.Getenv)
	if err != nil {
		return err
	}
	return labCommands[i].run(ctx, newLab(s), args[1:])
}

func usage(out io.Writer) {
	fmt.Fprintln(out, "usage: lab COMMAND, with LAB=small|ha, FROM=VERSION, TO=VERSION in the environment")
	for _, c := range labCommands {
		fmt.Fprintf(out, "  %-9s %s\n", c.name, c.does)
	}
	fmt.Fprintln(out, "versions:", strings.Join(knownVersions(), " "))
}

// buildAll builds everything that needs no Docker engine, for the versions named or for all.
func buildAll(ctx context.Context, l *lab, versions []string) error {
	if len(versions) == 0 {
		versions = knownVersions()
	}
	unlock, err := l.Cache.lock(ctx, "build.lock")
	if err != nil {
		return err
	}
	defer unlock()
	for _, version := range versions {
		r, err := findRelease(version)
		if err != nil {
			return err
		}
		if _, err := l.builder.artifacts(ctx, r); err != nil {
			return err
		}
	}
	if _, err := l.builder.buildWeb(ctx); err != nil {
		return err
	}
	_, _, err = l.builder.hostParts(ctx)
	return err
}

// eachShape does do for the shape that LAB names, or for all.
func eachShape(do func(l *lab) error) error {
	for _, s := range shapes {
		if only := os.Getenv("LAB"); only != "" && only != s.Name {
			continue
		}
		settings, err := readSettings(func(name string) string {
			if name == "LAB" {
				return s.Name
			}
			return os.Getenv(name)
		})
		if err != nil {
			return err
		}
		if err := do(newLab(settings)); err != nil {
			return err
		}
	}
	return nil
}

// downAll takes down the shape that LAB names, or all.
func downAll(ctx context.Context, _ *lab, _ []string) error {
	return eachShape(func(l *lab) error { return l.alone(ctx, func() error { return l.down(ctx, false) }) })
}

// purge removes the lab, and what down leaves in the Docker engine: saves, and the image of hosts.
func purge(ctx context.Context, _ *lab, _ []string) error {
	return eachShape(func(l *lab) error { return l.alone(ctx, func() error { return l.down(ctx, true) }) })
}
