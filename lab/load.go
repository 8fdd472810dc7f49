package main

import (
	"context"
	"fmt"
	"time"
)

// load puts the saved lab back in the place of whatever runs, as it was after bring-up.
func (l *lab) load(ctx context.Context) error {
	started := time.Now()
	if err := l.Cache.startEngine(ctx); err != nil {
		return err
	}
	image, err := l.build(ctx)
	if err != nil {
		return err
	}
	name, err := l.savedName(image)
	if err != nil {
		return err
	}
	if err := l.isSaved(ctx, name); err != nil {
		return fmt.Errorf("no save of lab %s at %s: bring it up and save it: %w", l.Shape.Name, l.From.Kubernetes, err)
	}
	if err := l.remove(ctx); err != nil {
		return err
	}
	say("loading lab %s from %s", l.Shape.Name, name)
	if err := copyFiles(l.savedDir(name), l.State, stateFiles); err != nil {
		return err
	}
	if err := l.writeClusterFile(); err != nil { // the target may be another one now
		return err
	}
	if err := l.Shape.createNetwork(ctx); err != nil {
		return err
	}
	err = each(ctx, l.Shape.Hosts, func(ctx context.Context, h host) error {
		if err := copyVolume(ctx, image, h.savedVolume(name), h.volume(), label+"="+l.Shape.Name); err != nil {
			return err
		}
		return h.create(ctx, l.Shape.network(), h.savedImage(name), l.From)
	})
	if err != nil {
		return err
	}
	say("booting it")
	if err := startHosts(ctx, l.Shape.Hosts); err != nil {
		return err
	}
	say("waiting until it is whole")
	if err := await(ctx, "lab after loading", 5*time.Minute, l.healthy); err != nil {
		return err
	}
	say("lab %s is up after %s: %s", l.Shape.Name, time.Since(started).Round(time.Second), l.statePath("cluster.yaml"))
	return nil
}

// refresh brings the lab into the state that bring-up leaves: from its save, or by bringing it up and saving it.
// The caller has the lab alone.
func (l *lab) refresh(ctx context.Context) error {
	if err := l.Cache.startEngine(ctx); err != nil {
		return err
	}
	image, err := l.build(ctx)
	if err != nil {
		return err
	}
	name, err := l.savedName(image)
	if err != nil {
		return err
	}
	if l.isSaved(ctx, name) == nil {
		return l.load(ctx)
	}
	if err := l.remove(ctx); err != nil {
		return err
	}
	if err := l.up(ctx); err != nil {
		return err
	}
	return l.save(ctx)
}
