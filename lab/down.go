package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// down removes the lab and everything of it but its logs, and then the engine that the lab started, if no other shape runs.
// Builds and saves stay, unless saves are to go too.
func (l *lab) down(ctx context.Context, saves bool) error {
	if up, err := l.engineToClean(ctx); err != nil || !up {
		return err
	}
	if err := l.remove(ctx); err != nil {
		return err
	}
	if saves {
		if err := l.dropSaves(ctx, l.Shape.Name+"-*"); err != nil {
			return err
		}
	}
	for _, s := range shapes {
		running, err := labelled(ctx, "container", s.Name)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			say("lab %s is still there, and so is the engine", s.Name)
			return nil
		}
	}
	if saves {
		if err := removeLabelled(ctx, "image", "image"); err != nil {
			return err
		}
	}
	return l.Cache.stopEngine(ctx)
}

// engineToClean tells whether an engine answers that may hold something of the lab's. One that the lab started and that has
// ended since is started again: its containers are still on disk.
func (l *lab) engineToClean(ctx context.Context) (bool, error) {
	if engineAnswers(ctx) == nil {
		return true, nil
	}
	if _, err := os.Stat(l.Cache.engineFile()); errors.Is(err, os.ErrNotExist) {
		say("no Docker engine answers: nothing to take down")
		return false, nil
	}
	return true, l.Cache.startEngine(ctx)
}

// remove removes the shape's containers, volumes and network by their label, and its files but the logs.
func (l *lab) remove(ctx context.Context) error {
	if err := removeLabelled(ctx, l.Shape.Name, "container", "volume", "network"); err != nil {
		return err
	}
	for _, name := range append([]string{"data"}, stateFiles...) {
		if err := os.RemoveAll(filepath.Join(l.State, name)); err != nil {
			return err
		}
	}
	return nil
}

// removeLabelled removes the things of kinds that carry the label with value.
func removeLabelled(ctx context.Context, value string, kinds ...string) error {
	for _, kind := range kinds {
		found, err := labelled(ctx, kind, value)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			continue
		}
		say("removing %d %ss of %s", len(found), kind, value)
		args := []string{kind, "rm"}
		if kind == "container" || kind == "image" {
			args = append(args, "--force")
		}
		if _, err := docker(ctx, append(args, found...)...); err != nil {
			return fmt.Errorf("remove what is labelled %s: %w", value, err)
		}
	}
	return nil
}
