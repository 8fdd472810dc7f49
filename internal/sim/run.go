package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
		address, port := h.address, 22
		if h.tcp != 0 {
			address, port = loopback, h.tcp
		}
		c.Hosts = append(c.Hosts, config.Host{
			Name: h.name, Role: role, Address: address, At: config.Position{File: "sim.yaml", Line: 3 + i, Column: 1},
			SSH: config.SSH{User: "ops", Port: port, Key: w.keyFile(), KnownHosts: w.knownHosts(), Jump: []config.Hop{}, Sudo: true, Tunnel: config.Forward},
		})
	}
	return c
}

// Run is one run of `kuberung upgrade`, as far as it came.
type Run struct {
	Findings []steps.Finding
	Rungs    int // begun
	Events   []engine.Event
	Err      error
	Left     []string // what it said of the state it left
	Empty    bool     // there was nothing to do

	began   time.Time            // the newest rung
	planned map[string]string    // what each step does, by "target step"
	lanes   map[string]time.Time // when the newest lane of a target began
	begun   map[string]bool      // those that have begun, guarded by the world's lock
}

// Change turns a plan into another one before it runs: what a broken kuberung would do. The outline that people were
// shown is that of the plan before.
type Change func(w *World, s *steps.Session, rung *steps.Rung)

// Upgrade does what `kuberung upgrade --yes` does: observe, check, plan, run, rung after rung. change may be nil.
func (w *World) Upgrade(ctx context.Context, c *config.Cluster, o *Operator, change Change) *Run {
	r := &Run{began: time.Now(), planned: map[string]string{}, begun: map[string]bool{}, lanes: map[string]time.Time{}}
	s := steps.OpenThrough(c, nil, o.Dial)
	defer s.Close()
	w.begins(r, o)
	if lock, err := w.lock(ctx, s, o); err != nil {
		r.Err = err
	} else {
		r.Err = w.climb(ctx, c, s, r, change)
		if err := lock.Release(ctx); err != nil {
			r.Err = errors.Join(r.Err, err)
		}
	}
	r.Left = s.Left(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.dead {
		r.Left = nil // nobody reads it
	}
	w.ends(r)
	return r
}

func (w *World) begins(r *Run, o *Operator) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("a run begins")
	w.runs++
	w.run, o.run = r, r
	o.id = fmt.Sprintf("run-%d", w.runs)
	w.operators[o.id] = o
}

// lock takes the cluster's lock. That a process has ended is known on its own machine.
func (w *World) lock(ctx context.Context, s *steps.Session, o *Operator) (*steps.Lock, error) {
	gone := func(h steps.Holder) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		other := w.operators[h.Run]
		return other != nil && other.dead
	}
	l := s.NewLock(steps.Holder{Run: o.id, Name: "somebody@" + o.id, Does: "upgrade to " + w.Shape.Target, Since: time.Now()}, gone, nowhere)
	if err := l.Take(ctx); err != nil && errors.As(err, new(*steps.HeldError)) {
		return nil, err
	}
	return l, nil
}

func nowhere(string, ...any) {}

// rungsAtMost ends a climb that goes in a circle.
const rungsAtMost = 5

func (w *World) climb(ctx context.Context, c *config.Cluster, s *steps.Session, r *Run, change Change) error {
	for range rungsAtMost {
		facts, err := s.ObserveSettled(ctx, nowhere)
		if err != nil {
			return err
		}
		r.Findings = steps.Check(c, facts)
		if steps.Blocked(r.Findings) {
			return fmt.Errorf("blocked by the checks: %v", r.Findings)
		}
		rungs := steps.Climb(c, facts, s)
		if len(rungs) == 0 {
			r.Empty = r.Rungs == 0
			return nil
		}
		r.Rungs++
		rung := rungs[0]
		w.plans(r, rung.Plan.Outline(rung.Facts))
		if change != nil {
			change(w, s, &rung)
		}
		err = engine.Run(ctx, rung.Plan, engine.Options[steps.Facts]{
			Observe: s.ObserveTarget, Enter: s.Enter,
			Emit: func(e engine.Event) { w.hears(r, e) },
		})
		if err != nil {
			return err
		}
		w.arrives()
	}
	return fmt.Errorf("there is more to do after %d rungs", rungsAtMost)
}

func (w *World) hears(r *Run, e engine.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Events = append(r.Events, e)
	if e.Kind == engine.Started && e.Step == "" {
		r.lanes[e.Target] = time.Now()
	}
	if e.Kind == engine.Started && e.Step != "" {
		r.begun[e.Target+" "+e.Step] = true
		w.note("%s: step %s begins: %s", e.Target, e.Step, e.Text)
	}
}

func (w *World) plans(r *Run, out engine.Outline) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.began = time.Now()
	clear(r.planned)
	clear(r.begun)
	for _, stage := range out.Stages {
		for _, lane := range stage.Lanes {
			for _, step := range lane.Steps {
				r.planned[lane.Target+" "+step.Name] = step.Does
			}
		}
	}
}

// snapshotSince reports whether the operator has a snapshot that was made since then, whole, with the description that
// is only written once it was verified.
func (w *World) snapshotSince(began time.Time) bool {
	names, _ := filepath.Glob(filepath.Join(w.data, "snapshots", "*.db")) // the pattern is good
	for _, name := range names {
		var d struct {
			SHA256 string    `json:"sha256"`
			Taken  time.Time `json:"taken"`
		}
		data, errData := os.ReadFile(name)
		text, errText := os.ReadFile(name + ".json")
		if errData != nil || errText != nil || json.Unmarshal(text, &d) != nil {
			continue
		}
		if !d.Taken.Before(began) && bytes.Equal(data, prepared.snapshot) && strings.EqualFold(d.SHA256, fmt.Sprintf("%x", sha256.Sum256(data))) {
			return true
		}
	}
	return false
}
