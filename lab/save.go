package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A saved lab is, per host, an image of its file system and a copy of its /var volume, both in the Docker engine, and a
// folder of the cache with the files of the state folder. The folder comes last, so that it stands for the whole.

// stateFiles are what the state folder holds besides logs and the product's own data.
var stateFiles = []string{"id_ed25519", "id_ed25519.pub", "known_hosts", "kubeconfig", "cluster.yaml"}

// savedName names the save that fits the settings: another version, or a lab made in another way, has another name. image is
// the hosts' image.
func (l *lab) savedName(image string) (string, error) {
	mark, err := os.ReadFile(filepath.Join(l.builder.artifactsDir(), l.From.Kubernetes, ".recipe"))
	if err != nil {
		return "", err
	}
	recipes, err := embedded()
	if err != nil {
		return "", err
	}
	return l.Shape.Name + "-" + l.From.Kubernetes + "-" + digest(mark, recipes, workloads, l.Shape, image), nil
}

// savedDir is the folder of the cache that stands for the save called name.
func (l *lab) savedDir(name string) string { return filepath.Join(l.Cache.dir, "saved", name) }

// savedImage and savedVolume name h's parts of the save called name.
func (h host) savedImage(name string) string  { return "kuberung-lab/saved:" + name + "-" + h.Name }
func (h host) savedVolume(name string) string { return "kuberung-saved-" + name + "-" + h.Name }

// save keeps a copy of a healthy lab for load, replacing older ones of the shape and version, and starts the lab again.
func (l *lab) save(ctx context.Context) error {
	image, err := l.build(ctx)
	if err != nil {
		return err
	}
	if err := l.healthy(ctx); err != nil {
		return fmt.Errorf("only a healthy lab is worth saving: %w", err)
	}
	name, err := l.savedName(image)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := l.dropSaves(ctx, l.Shape.Name+"-"+l.From.Kubernetes+"-*"); err != nil {
		return err
	}
	say("saving lab %s as %s", l.Shape.Name, name)
	_, err = l.Cache.product(filepath.Join("saved", name), func(tmp string) error { return l.saveTo(ctx, tmp, name, image) })
	if err != nil {
		return err
	}
	if err := startHosts(ctx, l.Shape.Hosts); err != nil {
		return err
	}
	if err := await(ctx, "lab after saving", 5*time.Minute, l.healthy); err != nil {
		return err
	}
	say("saved after %s", time.Since(started).Round(time.Second))
	return nil
}

// saveTo stops the hosts and copies everything: the state's files to dir, the rest inside the Docker engine.
func (l *lab) saveTo(ctx context.Context, dir, name, image string) error {
	if err := copyFiles(l.State, dir, stateFiles); err != nil {
		return err
	}
	if err := stopHosts(ctx, l.Shape.Hosts); err != nil {
		return err
	}
	saved := label + "=" + savedLabel(name)
	return each(ctx, l.Shape.Hosts, func(ctx context.Context, h host) error {
		if _, err := docker(ctx, "commit", "--change", "LABEL "+saved, h.container(), h.savedImage(name)); err != nil {
			return err
		}
		return copyVolume(ctx, image, h.volume(), h.savedVolume(name), saved)
	})
}

// isSaved returns nil if the save called name is whole. The folder alone does not prove that: the engine may have lost its
// part since.
func (l *lab) isSaved(ctx context.Context, name string) error {
	if _, err := os.Stat(l.savedDir(name)); err != nil {
		return err
	}
	for _, h := range l.Shape.Hosts {
		if _, err := docker(ctx, "image", "inspect", h.savedImage(name)); err != nil {
			return err
		}
		if _, err := docker(ctx, "volume", "inspect", h.savedVolume(name)); err != nil {
			return err
		}
	}
	return nil
}

// savedLabel is the label's value on what belongs to the save called name.
func savedLabel(name string) string { return "saved-" + name }

// dropSaves removes the saves, finished or not, whose names match pattern.
func (l *lab) dropSaves(ctx context.Context, pattern string) error {
	folders, err := filepath.Glob(l.savedDir(pattern)) // with those of an interrupted save
	if err != nil {
		return err
	}
	for _, dir := range folders {
		// Not the folder first, though it stands for the whole: without it nobody would find the rest.
		if err := removeLabelled(ctx, savedLabel(strings.TrimSuffix(filepath.Base(dir), partial)), "volume", "image"); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// copyVolume makes the volume to, labelled, with the contents of the volume from. The copy runs in a container of image, as
// root and with every capability, because only that keeps the attributes of containerd's layers.
func copyVolume(ctx context.Context, image, from, to, labelled string) error {
	if _, err := docker(ctx, "volume", "create", "--label", labelled, to); err != nil {
		return err
	}
	_, err := docker(ctx, "run", "--rm", "--label", label+"=copy", "--network", "none", "--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE",
		"--volume", from+":/from:ro", "--volume", to+":/to", "--entrypoint", "cp", image, "-a", "--reflink=auto", "/from/.", "/to/")
	return err
}

// copyFiles copies the files called names from one folder to another, with their modes.
func copyFiles(from, to string, names []string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		source := filepath.Join(from, name)
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.WriteFile(target, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}
