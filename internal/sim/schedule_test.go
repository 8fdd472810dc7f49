package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/internal/config"
)

// schedule is one cluster and what goes wrong while it is upgraded, all from a seed.
type schedule struct {
	seed   uint64
	rnd    *rand.Rand
	shape  Shape
	faults []planned

	patience int // runs after which a person calls it stuck
}

// planned is one fault and when it comes, after the start of all.
type planned struct {
	after time.Duration
	fault
}

// fault is something that goes wrong.
type fault struct {
	name string
	// strike is called under the lock, with a host that was picked.
	strike func(t *trial, h *host)
}

// trial is a schedule that is played.
type trial struct {
	*schedule
	t *testing.T
	w *World
	c *config.Cluster

	operator *Operator // at work now; nil between runs
	end      context.CancelCauseFunc
	runs     int
	repaired int
	struck   map[string]int
}

var errKilled = errors.New("killed")

var faultKinds = []fault{
	{"commands fail", func(t *trial, _ *host) { t.w.faults.scripts += 1 + t.rnd.IntN(3) }},
	{"a command hangs", func(t *trial, _ *host) { t.w.faults.hangs++ }},
	{"the connection is cut", func(_ *trial, h *host) { h.cutSSH() }},
	{"all connections are cut", func(t *trial, _ *host) {
		for _, h := range t.w.hosts {
			h.cutSSH()
		}
	}},
	{"a host cannot be reached", func(t *trial, h *host) {
		t.w.faults.lost[h] = true
		h.cutSSH()
		t.w.after(t.between(5*time.Second, 8*time.Minute), func() { delete(t.w.faults.lost, h) })
	}},
	{"a host reboots", func(t *trial, h *host) {
		if h.up {
			h.reboot(t.between(20*time.Second, 3*time.Minute))
		}
	}},
	{"a disk is full", func(t *trial, h *host) {
		h.full = true
		t.w.after(t.between(time.Minute, 10*time.Minute), func() { h.full = false })
	}},
	{"an API server flaps", func(t *trial, _ *host) {
		h := t.w.controlPlanes()[t.rnd.IntN(t.w.Shape.ControlPlanes)]
		t.w.faults.flapping[h] = true
		h.cutComponent("kube-apiserver")
		t.w.after(t.between(time.Second, time.Minute), func() { delete(t.w.faults.flapping, h) })
	}},
	{"API requests fail", func(t *trial, _ *host) { t.w.faults.errors += 1 + t.rnd.IntN(10) }},
	{"evictions are refused", func(t *trial, _ *host) { t.w.faults.refusals += 1 + t.rnd.IntN(6) }},
	{"kubeadm fails", func(t *trial, _ *host) { t.w.faults.crashes++ }},
	{"an etcd member is down", func(t *trial, _ *host) {
		m := t.w.etcd.members[t.rnd.IntN(len(t.w.etcd.members))]
		m.down = true
		m.h.cutComponent("etcd")
		t.w.etcd.elect()
		t.w.after(t.between(5*time.Second, 4*time.Minute), func() {
			m.down = false
			t.w.etcd.elect()
		})
	}},
	{"a clock is off", func(t *trial, h *host) {
		h.skew = t.between(-10*time.Minute, 10*time.Minute)
		t.w.after(t.between(time.Minute, 15*time.Minute), func() { h.skew = 0 })
	}},
	{"SFTP does not work", func(_ *trial, h *host) { h.noSFTP = true }},
	{"a host reboots between two renames of kubeadm", func(t *trial, _ *host) { t.w.faults.renames++ }},
	{"the operator is killed", (*trial).kill},
	{"the operator is killed", (*trial).kill}, // as often as two others
}

func (t *trial) kill(*host) {
	if t.operator != nil {
		t.operator.dead = true
		for c := range t.operator.all {
			c.Close()
		}
		t.end(errKilled)
	}
}

func (h *host) cutSSH() {
	for c := range h.conns {
		c.Close()
	}
}

func (s *schedule) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rnd.Int64N(int64(to-from)+1))
}

func newSchedule(seed uint64) *schedule {
	s := &schedule{seed: seed, patience: 20, rnd: rand.New(rand.NewPCG(seed, 3))}
	s.shape = Shape{ControlPlanes: []int{1, 1, 3}[s.rnd.IntN(3)], Workers: s.rnd.IntN(4), Target: "v1.36.3", Seed: seed, Batch: 1 + s.rnd.IntN(2)}
	s.shape.Version = []string{"v1.35.4", "v1.35.4", "v1.35.4", "v1.36.1", "v1.36.1", "v1.34.4"}[s.rnd.IntN(6)]
	if s.shape.Workers > 1 && s.rnd.IntN(3) == 0 {
		s.shape.Foreign = []string{fmt.Sprintf("w-%d", 1+s.rnd.IntN(s.shape.Workers))}
	}
	for range 1 + s.rnd.IntN(4) {
		s.faults = append(s.faults, planned{s.between(0, 8*time.Minute), faultKinds[s.rnd.IntN(len(faultKinds))]})
	}
	slices.SortFunc(s.faults, func(a, b planned) int { return int(a.after - b.after) })
	return s
}

// String tells it to people.
func (s *schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d+%d, %s to %s, batch %d, cordoned %v", s.seed, s.shape.ControlPlanes, s.shape.Workers, s.shape.Version, s.shape.Target, s.shape.Batch, s.shape.Foreign)
	for _, f := range s.faults {
		fmt.Fprintf(&b, "; after %s %s", f.after.Round(time.Second), f.name)
	}
	return b.String()
}

// play runs the schedule to its end: `kuberung upgrade` again and again until it says that there is nothing to do.
func (s *schedule) play(t *testing.T, dir string, change Change) (*trial, error) {
	w, err := New(t.Context(), dir, s.shape)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p := &trial{schedule: s, t: t, w: w, c: w.Cluster(artifacts), struck: map[string]int{}}
	w.faults.lost, w.faults.flapping = map[*host]bool{}, map[*host]bool{}
	for _, f := range s.faults {
		h := w.hosts[s.rnd.IntN(len(w.hosts))]
		w.after(f.after, func() {
			w.note("fault: %s (%s)", f.name, h.name)
			p.struck[f.name]++
			f.strike(p, h)
		})
	}
	p.upgradeUntilDone(change)
	return p, nil
}

func (t *trial) upgradeUntilDone(change Change) {
	last := t.faults[len(t.faults)-1].after
	for t.runs < t.patience {
		t.runs++
		ctx, cancel := context.WithCancelCause(t.t.Context())
		o := t.w.NewOperator()
		t.w.mu.Lock()
		t.operator, t.end = o, cancel
		t.w.mu.Unlock()
		r := t.w.Upgrade(ctx, t.c, o, change)
		cancel(nil)
		t.w.mu.Lock()
		t.operator = nil
		t.w.note("the run ends: %v", r.Err)
		t.repair(r)
		over, broken := time.Since(t.w.began) > last, len(t.w.broken) > 0
		t.w.mu.Unlock()
		if broken {
			return
		}
		if r.Err == nil && r.Empty && over {
			pause(t.t.Context(), locksExpire)
			t.w.finish()
			return
		}
		pause(t.t.Context(), t.between(time.Second, 6*time.Minute))
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.breaks(converges, "after %d runs it still is not done", t.runs)
}

// repair does what the checks tell a person to do who finds a control plane without a manifest: a reboot came between
// two renames of kubeadm.
func (t *trial) repair(r *Run) {
	for _, f := range r.Findings {
		if f.Check != "role-as-written" || !f.Block {
			continue
		}
		for _, h := range t.w.controlPlanes() {
			for _, component := range components {
				backup := backups + component + ".yaml"
				if h.up && h.read(manifestFile(component)) == "" && h.files[backup] != nil {
					h.files[manifestFile(component)] = h.files[backup]
					t.repaired++
					t.w.note("by hand: the manifest of %s is put back on %s", component, h.name)
				}
			}
		}
	}
}

// locksExpire is when the lock of a killed run is one no more.
const locksExpire = 5 * time.Minute

// finish compares where everything ended with where it should have.
func (w *World) finish() {
	for _, d := range Differences(w.State(), w.WantState()) {
		w.mu.Lock()
		w.breaks(converges, "%s", d)
		w.mu.Unlock()
	}
}
