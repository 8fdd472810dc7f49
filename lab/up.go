package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// up brings the lab up. Each part asks first whether it is done, so that running it again goes on where it stopped, and on a
// healthy lab only says so.
func (l *lab) up(ctx context.Context) error {
	started := time.Now()
	if err := l.Cache.startEngine(ctx); err != nil {
		return err
	}
	hostImage, err := l.build(ctx)
	if err != nil {
		return err
	}
	if l.healthy(ctx) == nil {
		say("lab %s is up already: %s", l.Shape.Name, l.statePath("cluster.yaml"))
		return l.writeClusterFile()
	}
	if err := l.makeKey(); err != nil {
		return err
	}
	if err := l.makeHosts(ctx, hostImage); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{l.writeHostKeys, l.makeCluster, l.applyWorkloads} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if err := await(ctx, "nodes and workloads", 5*time.Minute, l.complete); err != nil {
		return err
	}
	if err := l.writeClusterFile(); err != nil { // last: it stands for a bring-up that came to its end
		return err
	}
	say("lab %s is up after %s: %s", l.Shape.Name, time.Since(started).Round(time.Second), l.statePath("cluster.yaml"))
	return nil
}

// build builds what the lab needs of both versions and returns the name of the hosts' image.
func (l *lab) build(ctx context.Context) (string, error) {
	unlock, err := l.Cache.lock(ctx, "build.lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, r := range []release{l.From, l.To} {
		if _, err := l.builder.artifacts(ctx, r); err != nil {
			return "", err
		}
	}
	if l.webArchive, err = l.builder.buildWeb(ctx); err != nil {
		return "", err
	}
	refs, err := listImages(ctx, l.artifacts(l.From), l.From.Kubernetes)
	if err != nil {
		return "", err
	}
	l.preload = map[string]string{}
	for _, ref := range refs {
		component, _ := splitRef(ref)
		l.preload[component] = ref
	}
	_, err = os.Stat("/sys/fs/cgroup/cgroup.controllers") // there on cgroup v2 only
	l.cgroupV1 = errors.Is(err, os.ErrNotExist)
	return l.builder.hostImage(ctx)
}

// makeHosts creates and boots the hosts that do not run, and loads the images that new ones need.
func (l *lab) makeHosts(ctx context.Context, image string) error {
	if err := l.Shape.createNetwork(ctx); err != nil {
		return err
	}
	for _, h := range l.Shape.Hosts {
		state, err := h.state(ctx)
		if err != nil {
			return err
		}
		if state != "" {
			if err := l.sameVersion(ctx, h); err != nil {
				return err
			}
			continue
		}
		say("%s: creating the host", h.Name)
		if err := h.create(ctx, l.Shape.network(), image, l.From); err != nil {
			return err
		}
		own, err := l.ownFiles(h)
		if err != nil {
			return err
		}
		if err := h.put(ctx, own...); err != nil {
			return err
		}
	}
	if err := startHosts(ctx, l.Shape.Hosts); err != nil {
		return err
	}
	return each(ctx, l.Shape.Nodes(), l.preloadImages)
}

// sameVersion refuses to go on with a host that was made for another version.
func (l *lab) sameVersion(ctx context.Context, h host) error {
	made, err := docker(ctx, "container", "inspect", "--format", `{{index .Config.Labels "`+fromLabel+`"}}`, h.container())
	if err != nil {
		return err
	}
	if made = strings.TrimSpace(made); made != l.From.Kubernetes {
		return fmt.Errorf("%s was made with %s, not %s: take lab %s down first", h.Name, made, l.From.Kubernetes, l.Shape.Name)
	}
	return nil
}

// ownFiles are the files of h that the image of all hosts does not hold.
func (l *lab) ownFiles(h host) ([]entry, error) {
	public, err := os.ReadFile(l.statePath("id_ed25519.pub"))
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{Path: "home/ops/.ssh", Mode: 0o700, UID: 1000},
		{Path: "home/ops/.ssh/authorized_keys", Mode: 0o600, UID: 1000, Data: public},
		{Path: "etc/lab/resolv.conf", Mode: 0o644, Data: []byte("nameserver " + l.Shape.Gateway + "\n")},
	}
	if h.Role == plain {
		return entries, nil
	}
	template, target, unit := "containerd.toml", "etc/containerd/config.toml", "/usr/lib/systemd/system/containerd.service"
	if h.Role == loadBalancer {
		template, target, unit = "haproxy.cfg", "etc/haproxy/haproxy.cfg", "/usr/lib/systemd/system/haproxy.service"
	}
	text, err := render(template, l.page(h))
	if err != nil {
		return nil, err
	}
	entries = append(entries, entry{Path: target, Mode: 0o644, Data: text}, enabled(unit))
	if h.Role == loadBalancer {
		return entries, nil
	}
	for _, name := range []string{"kubeadm", "kubelet", "kubectl", "crictl"} {
		entries = append(entries, executable("usr/bin/"+name, filepath.Join(l.artifacts(l.From), name)))
	}
	return append(entries, enabled("/usr/lib/systemd/system/kubelet.service")), nil
}

// workerComponents are the images that a worker needs; a control plane gets all.
var workerComponents = []string{"kube-proxy", "coredns", "pause"}

// preloadImages imports the images of the version that h starts with, once.
func (l *lab) preloadImages(ctx context.Context, h host) error {
	const done = "/var/lib/lab/images-imported"
	if h.has(ctx, done) {
		return nil
	}
	components := workerComponents
	if h.ControlPlane() {
		components = slices.Sorted(maps.Keys(l.preload))
	}
	archives := []string{l.webArchive}
	for _, name := range components {
		archives = append(archives, filepath.Join(l.artifacts(l.From), "images", name+".tar"))
	}
	say("%s: importing %d images", h.Name, len(archives))
	if err := h.importImages(ctx, l.log(h.Name+"-images"), archives); err != nil {
		return err
	}
	return h.write(ctx, done, nil)
}
