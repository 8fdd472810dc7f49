package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// bed is what a case stands on: a fresh cluster, our own ways to look at it, and the tool.
type bed struct {
	lab      settings
	from, to string // versions with a leading v
	nodes    []host

	kube kubernetes.Interface // through the endpoint of the kubeconfig
	rest *rest.Config

	clusterFile string
	data        string // where the tool keeps runs and snapshots
	batch       int    // workers that the tool may take out of service at once

	tool     string   // the binary under test
	machine  []string // words before it that make it another machine's; none: this one's
	operator string   // host name of that machine
	etcdutl  string   // of the version that the cluster moves to
	dir      string   // what the tool printed, kept for whoever looks into a failure
	scratch  string   // removed at the end
	away     string   // node that a case takes away: what is asked through it may fail; none: empty
	measured *table
	lived    time.Duration // of all runs that were killed, together
}

// freshBed puts the cluster back as it was at the version from, with the sample workloads running, and builds the tool.
// The caller has the lab alone.
func freshBed(ctx context.Context, l *lab, c endToEnd, measured *table) (*bed, error) {
	began := time.Now()
	if err := l.refresh(ctx); err != nil {
		return nil, err
	}
	measured.add("fresh cluster", time.Since(began))

	b := &bed{lab: l.settings, from: c.from, to: c.to, nodes: l.Shape.Nodes(), measured: measured}
	if err := b.places(c.name); err != nil {
		return nil, err
	}
	for _, prepare := range []func(context.Context) error{b.connect, b.buildTool, b.findEtcdutl, b.settle} {
		if err := prepare(ctx); err != nil {
			return nil, errors.Join(err, os.RemoveAll(b.scratch))
		}
	}
	return b, nil
}

// places reads the cluster file, and makes the folders of the case. What an earlier run left in the tool's data is removed:
// it belongs to a cluster that is gone.
func (b *bed) places(name string) error {
	b.clusterFile = filepath.Join(b.lab.State, "cluster.yaml")
	text, err := os.ReadFile(b.clusterFile)
	if err != nil {
		return err
	}
	var file struct {
		Data    string
		Workers struct{ Batch int }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return err
	}
	b.data, b.batch = file.Data, max(1, file.Workers.Batch)
	if !filepath.IsAbs(b.data) || !strings.HasPrefix(b.data, b.lab.State) {
		return fmt.Errorf("the cluster file's data %q is not below the lab's folder %s", b.data, b.lab.State)
	}
	b.dir = filepath.Join(b.lab.State, "e2e", name)
	if err := errors.Join(os.RemoveAll(b.data), os.RemoveAll(b.dir), os.MkdirAll(b.dir, 0o755)); err != nil {
		return err
	}
	b.scratch, err = os.MkdirTemp("", "kuberung-e2e-")
	return err
}

// connect makes the API client from the lab's kubeconfig.
func (b *bed) connect(context.Context) error {
	var err error
	b.rest, err = clientcmd.BuildConfigFromFlags("", filepath.Join(b.lab.State, "kubeconfig"))
	if err != nil {
		return err
	}
	b.rest.QPS, b.rest.Burst = -1, -1 // no limit of our own: checks read a lot at once
	b.rest.Timeout = 10 * time.Second
	b.kube, err = kubernetes.NewForConfig(b.rest)
	return err
}

// buildTool builds the binary under test from this tree, as `make build` does.
func (b *bed) buildTool(ctx context.Context) error {
	b.tool = filepath.Join(b.scratch, "kuberung")
	_, err := command{
		Argv:  []string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", b.tool, ownModule},
		Env:   []string{"CGO_ENABLED=0"},
		Limit: 15 * time.Minute,
	}.run(ctx)
	if err != nil {
		return err
	}
	info, err := os.Stat(b.tool)
	if err == nil {
		b.measured.add("binary", size(info.Size()))
	}
	return err
}

// findEtcdutl takes etcd's offline tool, in the version that the cluster moves to, from the lab's cache.
func (b *bed) findEtcdutl(ctx context.Context) error {
	_, etcd, err := b.targetImages(ctx)
	if err != nil {
		return err
	}
	dir, err := etcdRecipe("v"+etcd).build(ctx, b.lab.Cache)
	if err != nil {
		return err
	}
	b.etcdutl = filepath.Join(dir, "etcdutl")
	return b.measureArtifacts()
}

// measureArtifacts notes the size of what the tool brings to the hosts.
func (b *bed) measureArtifacts() error {
	var bytes int64
	err := filepath.WalkDir(filepath.Join(newLab(b.lab).builder.artifactsDir(), b.to), func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	b.measured.add("artifacts of "+b.to, size(bytes))
	return err
}

// targetImages asks the target's kubeadm which CoreDNS (image tag) and etcd (version) it wants.
func (b *bed) targetImages(ctx context.Context) (coreDNS, etcd string, err error) {
	kubernetes, err := kubernetesRecipe(b.to).build(ctx, b.lab.Cache)
	if err != nil {
		return "", "", err
	}
	refs, err := listImages(ctx, kubernetes, b.to)
	if err != nil {
		return "", "", err
	}
	for _, ref := range refs {
		switch component, tag := splitRef(ref); component {
		case "coredns":
			coreDNS = tag
		case "etcd": // 3.6.8-0: the version, and the revision of the image
			etcd, _, _ = strings.Cut(tag, "-")
		}
	}
	if coreDNS == "" || etcd == "" {
		return "", "", fmt.Errorf("kubeadm %s lists no CoreDNS or no etcd: %v", b.to, refs)
	}
	return coreDNS, etcd, nil
}

// wanted says what the cluster must be after the run, and notes what it is now.
func (b *bed) wanted(ctx context.Context) (wanted, error) {
	w := wanted{version: b.to}
	var err error
	if w.coreDNS, w.etcd, err = b.targetImages(ctx); err != nil {
		return w, err
	}
	if w.members, err = b.memberCount(ctx); err != nil {
		return w, err
	}
	if w.members != len(b.controlPlanes()) {
		return w, fmt.Errorf("etcd has %d members before the run, want one per control plane", w.members)
	}
	w.before, err = b.scene(ctx)
	return w, err
}

// watch begins to look at the nodes.
func (b *bed) watch(ctx context.Context, cordoned []string) (*watcher, error) {
	w := &watcher{cordoned: cordoned, addresses: map[string]string{}, apis: []kubernetes.Interface{b.kube}}
	for _, h := range b.controlPlanes() {
		w.addresses[h.NodeName] = h.Address + ":6443"
		own := rest.CopyConfig(b.rest)
		own.Host = "https://" + h.Address + ":6443"
		client, err := kubernetes.NewForConfig(own)
		if err != nil {
			return nil, err
		}
		w.apis = append(w.apis, client)
	}
	w.start(ctx)
	return w, nil
}

func (b *bed) controlPlanes() []host { return b.lab.Shape.ControlPlanes() }

// sh runs a shell script as root on a host, through Docker and so without SSH, and returns what it prints.
func (b *bed) sh(ctx context.Context, h host, script string) (string, error) {
	out, err := h.exec(ctx, "sh", "-c", script)
	if err != nil {
		return out, fmt.Errorf("%s: %w", h.Name, err)
	}
	return out, nil
}
