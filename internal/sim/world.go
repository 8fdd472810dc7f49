package sim

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Shape says what cluster to simulate.
type Shape struct {
	ControlPlanes, Workers int
	Version                string   // it runs now
	Target                 string   // it is to move to
	Batch                  int      // of workers; 0: 1
	Foreign                []string // hosts that somebody cordoned before: "w-1"
	Seed                   uint64
	Pace                   int // the cluster is so many times faster than a real one; 0: 1
}

// World is one cluster. Close it.
type World struct {
	Shape Shape
	dir   string // of the operator's files
	data  string // of the operator's snapshots

	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu        sync.Mutex
	rnd       *mathrand.Rand
	hosts     []*host
	store     *store
	etcd      *etcd
	ca        *authority
	user      ssh.Signer
	faults    faults
	run       *Run // the newest
	runs      int
	operators map[string]*Operator
	began     time.Time
	broken    []string
	log       []string
	uids      int
}

// New builds a cluster that runs. dir is for the few files that an operator has: keys and snapshots.
func New(ctx context.Context, dir string, shape Shape) (*World, error) {
	shape.Batch, shape.Pace = max(shape.Batch, 1), max(shape.Pace, 1)
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &World{
		Shape: shape, dir: dir, data: filepath.Join(dir, "data"), ctx: ctx, cancel: cancel, ca: ca, began: time.Now(),
		rnd: mathrand.New(mathrand.NewPCG(shape.Seed, 1)), store: newStore(), operators: map[string]*Operator{},
	}
	w.etcd = &etcd{w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.build(); err != nil {
		cancel()
		return nil, err
	}
	w.loops.Go(w.tick)
	return w, nil
}

// build puts the hosts there, and a cluster on them that has settled.
func (w *World) build() error {
	for i := range w.Shape.ControlPlanes {
		w.addHost(fmt.Sprintf("cp-%d", i+1), true)
	}
	for i := range w.Shape.Workers {
		w.addHost(fmt.Sprintf("w-%d", i+1), false)
	}
	if err := w.writeLogin(); err != nil {
		return err
	}
	for _, h := range w.hosts {
		if err := w.furnish(h); err != nil {
			return err
		}
	}
	for _, h := range w.hosts {
		if err := w.listen(h); err != nil {
			return err
		}
	}
	w.etcd.elect()
	w.populate()
	return nil
}

func (w *World) addHost(name string, control bool) {
	w.hosts = append(w.hosts, &host{
		w: w, name: name, node: "node-" + name, address: fmt.Sprintf("10.0.0.%d", len(w.hosts)+1), control: control, up: true,
		files: map[string]*file{}, images: map[string]bool{}, units: map[string]*unit{}, static: map[string]*staticPod{},
		ports: map[string]*port{}, conns: map[net.Conn]bool{}, procs: map[int]func(){}, lastID: 100,
	})
}

func (w *World) host(name string) *host {
	i := slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == name })
	if i < 0 {
		return nil
	}
	return w.hosts[i]
}

func (w *World) hostOfNode(node string) *host {
	i := slices.IndexFunc(w.hosts, func(h *host) bool { return h.node == node })
	if i < 0 {
		return nil
	}
	return w.hosts[i]
}

func (w *World) controlPlanes() []*host {
	var found []*host
	for _, h := range w.hosts {
		if h.control {
			found = append(found, h)
		}
	}
	return found
}

// writeLogin makes the keys of the hosts and of the operator, and the files in which the operator keeps them.
func (w *World) writeLogin() error {
	var known []byte
	for _, h := range w.hosts {
		signer, _, err := newKey()
		if err != nil {
			return err
		}
		h.signer = signer
		known = append(known, knownhosts.Line([]string{h.address}, signer.PublicKey())+"\n"...)
	}
	user, private, err := newKey()
	if err != nil {
		return err
	}
	w.user = user
	if err := os.MkdirAll(w.data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(w.keyFile(), private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(w.knownHosts(), known, 0o600)
}

func (w *World) keyFile() string    { return filepath.Join(w.dir, "key") }
func (w *World) knownHosts() string { return filepath.Join(w.dir, "known_hosts") }

func newKey() (ssh.Signer, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, nil, err
	}
	return signer, pem.EncodeToMemory(block), nil
}

// furnish puts on a host what kubeadm init or join leaves there.
func (w *World) furnish(h *host) error {
	version := w.Shape.Version
	for _, name := range programs {
		h.write("/usr/bin/"+name, program(name, version), "0755")
	}
	h.write("/usr/bin/containerd", program("containerd", "v2.1.4"), "0755")
	for _, image := range images(version) {
		h.images[image] = true
	}
	node, err := w.ca.issue(pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + h.node}, h.address)
	if err != nil {
		return err
	}
	h.write("/var/lib/kubelet/pki/kubelet-client-current.pem", append(node.cert, node.key...), "0600")
	h.write("/etc/kubernetes/kubelet.conf", w.ca.kubeconfig("10.0.0.1:6443", "system:node:"+h.node, node), "0600")
	h.write("/etc/kubernetes/pki/ca.crt", w.ca.pem, "0644")
	h.write("/var/lib/kubelet/config.yaml", []byte(kubeletConfig(version)), "0644")
	h.write("/var/lib/kubelet/kubeadm-flags.env", []byte("KUBELET_KUBEADM_ARGS=\"\"\n"), "0644")
	h.startKubelet()
	h.kubelet.reported = true
	if !h.control {
		return nil
	}
	return w.furnishControlPlane(h)
}

func (w *World) furnishControlPlane(h *host) error {
	admin, err := w.ca.issue(pkix.Name{Organization: []string{"kubeadm:cluster-admins"}, CommonName: "kubernetes-admin"})
	if err != nil {
		return err
	}
	h.write("/etc/kubernetes/admin.conf", w.ca.kubeconfig("10.0.0.1:6443", "kubernetes-admin", admin), "0600")
	h.write("/etc/kubernetes/pki/etcd/ca.crt", w.ca.pem, "0644")
	h.write("/etc/kubernetes/pki/etcd/healthcheck-client.crt", admin.cert, "0644")
	h.write("/etc/kubernetes/pki/etcd/healthcheck-client.key", admin.key, "0600")
	w.etcd.add(h)
	for _, component := range components {
		h.write(manifestFile(component), []byte(manifest(h, component, w.Shape.Version)), "0600")
		h.static[component] = &staticPod{uid: h.staticUID(component), text: h.read(manifestFile(component)), ready: true}
	}
	return nil
}

// tick lets a second go by, again and again: kubelets and controllers do what is due.
func (w *World) tick() {
	every := time.NewTicker(w.pace(time.Second))
	defer every.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-every.C:
		}
		w.mu.Lock()
		for _, h := range w.hosts {
			h.tickKubelet()
		}
		w.tickControllers()
		w.mu.Unlock()
	}
}

// after does something later, under the lock.
func (w *World) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ctx.Err() == nil {
			do()
		}
	})
}

// pace is how long something takes here that takes d on a real cluster.
func (w *World) pace(d time.Duration) time.Duration { return d / time.Duration(w.Shape.Pace) }

// between picks a time.
func (w *World) between(from, to time.Duration) time.Duration {
	return w.pace(from + time.Duration(w.rnd.Int64N(int64(to-from)+1)))
}

// note writes a line into the world's own log, for whoever looks into a broken run.
func (w *World) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%9.1fs ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// breaks notes that something is not as it must be.
func (w *World) breaks(invariant, format string, args ...any) {
	line := invariant + ": " + fmt.Sprintf(format, args...)
	w.note("BROKEN %s", line)
	if !slices.Contains(w.broken, line) {
		w.broken = append(w.broken, line)
	}
}

// Broken lists the invariants that did not hold, each with what happened.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

// Log is what happened in the world, line by line.
func (w *World) Log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// Close ends the world and waits until nothing of it runs.
func (w *World) Close() {
	w.mu.Lock()
	w.cancel()
	for _, h := range w.hosts {
		for c := range h.conns {
			c.Close()
		}
		for _, p := range h.ports {
			p.l.Close()
			p.cut()
		}
		for _, end := range h.procs {
			end()
		}
	}
	w.mu.Unlock()
	w.loops.Wait()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
