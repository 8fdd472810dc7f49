package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kuberung/kuberung/lab/probe"
)

const (
	serviceRate = 20 // requests a second to the Service through each node
	apiRate     = 10 // requests a second to the API endpoint
	nodePort    = 30080
	apiTarget   = "API"
)

// users are the requests that must not notice an upgrade.
type users struct {
	prober *probe.Prober
	away   string // target of which requests may fail
	err    error  // why they could not be started
}

// users begins to ask the Service through every node's port, and the API through its endpoint.
func (b *bed) users(ctx context.Context) *users {
	tls, err := rest.TLSConfigFor(b.rest)
	if err != nil {
		return &users{err: err}
	}
	targets := []probe.Target{{Name: apiTarget, URL: b.rest.Host + "/readyz", Rate: apiRate, TLS: tls}}
	for _, h := range b.nodes {
		targets = append(targets, probe.Target{Name: serviceThrough(h.NodeName), URL: fmt.Sprintf("http://%s:%d/", h.Address, nodePort), Rate: serviceRate})
	}
	return &users{prober: probe.Start(ctx, targets...), away: serviceThrough(b.away)}
}

// serviceThrough names the requests to the Service through a node.
func serviceThrough(node string) string { return "Service through " + node }

// verdict stops the requests, notes their counts, and returns an error for each target of which too little was sent and,
// when unnoticed, for the failed requests to the Service. Failures of the API are counted only: a connection to an API
// server that stops is lost even where another takes over. Every failure is written to the folder dir, unless that is empty.
func (u *users) verdict(measured *table, dir string, unnoticed bool) error {
	if u.err != nil {
		return u.err
	}
	var errs []error
	var all strings.Builder
	for _, r := range u.prober.Stop() {
		measured.add(r.Target, r)
		errs = append(errs, r.Valid())
		if unnoticed && r.Target != apiTarget && r.Target != u.away && r.Failed > 0 {
			errs = append(errs, fmt.Errorf("%d of %d requests failed, first and last: %v; %v", r.Failed, r.Sent, r.Failures[0], r.Failures[r.Failed-1]))
		}
		for _, f := range r.Failures {
			fmt.Fprintln(&all, f)
		}
	}
	if dir != "" {
		errs = append(errs, os.WriteFile(filepath.Join(dir, "failed-requests"), []byte(all.String()), 0o644))
	}
	return errors.Join(errs...)
}
