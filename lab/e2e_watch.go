package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// sight is what one look saw of a node.
type sight struct {
	controlPlane bool
	out          string // why the node is out of service; empty when it serves
}

// spell is a time during which a node was out of service.
type spell struct {
	node, why string
	from, to  time.Time
}

// outages keeps what a row of looks saw: how long each node was out of service, and how many were at once.
type outages struct {
	open   map[string]*spell
	closed []spell

	controlPlanes, workers     int      // the most seen out of service at once
	controlPlaneSet, workerSet []string // which ones those were
	blind                      time.Duration
	last                       time.Time // of the last look that saw anything
}

// look takes in what was seen at a time. A look that saw nothing is not taken in: it lengthens the time that was blind.
func (o *outages) look(at time.Time, nodes map[string]sight) {
	if !o.last.IsZero() {
		o.blind = max(o.blind, at.Sub(o.last))
	}
	o.last = at
	if o.open == nil {
		o.open = map[string]*spell{}
	}
	var controlPlanes, workers []string
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		seen := nodes[name]
		o.mark(at, name, seen.out)
		switch {
		case seen.out == "":
		case seen.controlPlane:
			controlPlanes = append(controlPlanes, name+" "+seen.out)
		default:
			workers = append(workers, name+" "+seen.out)
		}
	}
	if len(controlPlanes) > o.controlPlanes {
		o.controlPlanes, o.controlPlaneSet = len(controlPlanes), controlPlanes
	}
	if len(workers) > o.workers {
		o.workers, o.workerSet = len(workers), workers
	}
}

func (o *outages) mark(at time.Time, node, why string) {
	open := o.open[node]
	switch {
	case why == "" && open != nil:
		open.to = at
		o.closed = append(o.closed, *open)
		delete(o.open, node)
	case why != "" && open == nil:
		o.open[node] = &spell{node: node, why: why, from: at, to: at}
	case why != "":
		open.to = at
	}
}

// spells lists every time that a node was out of service, in order of their beginning.
func (o *outages) spells() []spell {
	all := slices.Clone(o.closed)
	for _, s := range o.open {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b spell) int { return a.from.Compare(b.from) })
	return all
}

// within checks the invariants: never two control planes out of service, nor more than batch workers, and no time longer
// than blind in which nothing was seen.
func (o *outages) within(batch int, blind time.Duration) error {
	var errs []error
	if o.last.IsZero() {
		errs = append(errs, errors.New("the nodes were never seen during the run"))
	}
	if o.controlPlanes > 1 {
		errs = append(errs, fmt.Errorf("%d control planes out of service at once: %s", o.controlPlanes, strings.Join(o.controlPlaneSet, ", ")))
	}
	if o.workers > batch {
		errs = append(errs, fmt.Errorf("%d workers out of service at once, want at most %d: %s", o.workers, batch, strings.Join(o.workerSet, ", ")))
	}
	if o.blind > blind {
		errs = append(errs, fmt.Errorf("the nodes could not be seen for %v, want at most %v", o.blind.Round(time.Second), blind))
	}
	return errors.Join(errs...)
}

// watcher looks at the nodes all the time, through whichever API server answers.
type watcher struct {
	apis      []kubernetes.Interface // the endpoint first, then each control plane's own API server
	addresses map[string]string      // node to host:port of its own API server
	cordoned  []string               // nodes that the test itself has cordoned

	stop context.CancelFunc
	done chan struct{}
	seen outages
}

// lookEvery is the time between two looks. A cordon lasts at least as long as a drain, which takes seconds.
const lookEvery = 500 * time.Millisecond

// start begins to watch until finish is called or ctx is done.
func (w *watcher) start(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		for {
			w.lookOnce(ctx)
			if pause(ctx, lookEvery) != nil {
				return
			}
		}
	}()
}

// finish ends the watch and returns what it saw.
func (w *watcher) finish() *outages {
	w.stop()
	<-w.done
	return &w.seen
}

func (w *watcher) lookOnce(ctx context.Context) {
	nodes, err := w.nodes(ctx)
	if err != nil {
		return // counted as blind by the next look that succeeds
	}
	seen := map[string]sight{}
	for _, n := range nodes {
		_, controlPlane := n.Labels["node-role.kubernetes.io/control-plane"]
		seen[n.Name] = sight{controlPlane, w.outOfService(ctx, n)}
	}
	w.seen.look(time.Now(), seen)
}

// nodes asks one API server after the other.
func (w *watcher) nodes(ctx context.Context) ([]corev1.Node, error) {
	var errs []error
	for _, api := range w.apis {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		list, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		cancel()
		if err == nil {
			return list.Items, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// outOfService says why a node does not serve: cordoned (not by the test), not Ready, or its own API server gone.
func (w *watcher) outOfService(ctx context.Context, n corev1.Node) string {
	if n.Spec.Unschedulable && !slices.Contains(w.cordoned, n.Name) {
		return "cordoned"
	}
	if !nodeReady(n) {
		return "not Ready"
	}
	if address := w.addresses[n.Name]; address != "" {
		connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return "without its API server"
		}
		if err == nil {
			connection.Close()
		}
	}
	return ""
}

// nodeReady reports whether the node's Ready condition is true.
func nodeReady(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
