package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

// Cluster is the cluster file of the world's operator. artifacts is a directory made by [WriteArtifacts].
func (w *World) Cluster(artifacts string) *config.Cluster {
	c := &config.Cluster{
		File: "sim.yaml", Name: "sim", Target: w.Shape.Target, TargetAt: config.Position{File: "sim.yaml", Line: 1, Column: 1},
		Artifacts: artifacts, ArtifactsAt: config.Position{File: "sim.yaml", Line: 2, Column: 1}, Data: w.data,
		Workers:  config.Workers{Batch: w.Shape.Batch},
		Drain:    config.Drain{Timeout: 10 * time.Minute},
		Kubeadm:  config.Kubeadm{CertificateRenewal: true},
		Timeouts: config.Timeouts{Kubeadm: 80 * time.Minute, Gate: 10 * time.Minute, Observe: 3 * time.Minute, Stage: 30 * time.Minute},
	}
	for i, h := range w.hosts {
		role := config.Worker
		if h.control {
			role = config.ControlPlane
		}
		c.Hosts = append(c.Hosts, config.Host{
			Name: h.name, Role: role, Address: h.address, At: config.Position{File: "sim.yaml", Line: 3 + i, Column: 1},
			SSH: config.SSH{User: "ops", Port: 22, Key: w.keyFile(), KnownHosts: w.knownHosts(), Jump: []config.Hop{}, Sudo: true, Tunnel: config.Forward},
		})
	}
	return c
}

// Run is one run of `kuberung upgrade`, as far as it came.
type Run struct {
	Facts    steps.Facts
	Findings []steps.Finding
	Plan     engine.Outline
	Events   []engine.Event
	Err      error
	Left     []string
}

// Upgrade does what `kuberung upgrade --yes` does: observe, check, plan, run.
func (w *World) Upgrade(ctx context.Context, c *config.Cluster, o *Operator) *Run {
	r := &Run{}
	s := steps.OpenThrough(c, nil, o.Dial)
	defer s.Close()
	logf := func(string, ...any) {}
	if r.Facts, r.Err = s.ObserveSettled(ctx, logf); r.Err != nil {
		return r
	}
	r.Findings = steps.Check(c, r.Facts)
	if steps.Blocked(r.Findings) {
		r.Err = fmt.Errorf("blocked by the checks: %v", r.Findings)
		return r
	}
	plan := steps.Plan(c, r.Facts, s)
	r.Plan = plan.Outline(r.Facts)
	r.Err = engine.Run(ctx, plan, engine.Options[steps.Facts]{
		Observe: s.ObserveTarget,
		Emit:    func(e engine.Event) { r.Events = append(r.Events, e) },
	})
	r.Left = s.Left(ctx)
	return r
}
