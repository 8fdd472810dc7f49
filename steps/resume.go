package steps

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// transient are the checks that an interrupted run may fail for a while, because what it began is
// still settling on the hosts.
var transient = map[string]bool{
	"api-reachable": true, "nodes-ready": true, "control-plane-healthy": true, "etcd-healthy": true,
	"role-as-written": true, "host-is-node": true, "nodes-listed": true,
}

// ObserveSettled observes like Observe. Where an earlier run to the same target was cut off, it first
// waits for what that run left going: a kubeadm that is still at work on a host, then static pods that
// restart. What does not settle within the limit is in the facts, for the checks to tell.
func (s *Session) ObserveSettled(ctx context.Context, log engine.Logf) (Facts, error) {
	if err := s.hostsFree(ctx); err != nil {
		return Facts{}, err
	}
	if err := s.awaitUnits(ctx, log); err != nil {
		return Facts{}, err
	}
	var f Facts
	err := poll(ctx, s.Cluster.Timeouts.Observe, 2*time.Second, func(context.Context) (bool, error) {
		f = s.Observe(ctx)
		why := unsettled(s, f)
		if why != "" {
			log("an earlier run was cut off and is still settling: %s", oneLine(why))
		}
		return why == "", errors.New(why)
	})
	if ctx.Err() != nil {
		return f, err
	}
	return s.underLock(ctx, f)
}

// unsettled says which finding may pass by itself; "" if there is none, or no trace of a run.
func unsettled(s *Session, f Facts) string {
	if !begun(f) {
		return ""
	}
	why := ""
	for _, finding := range Check(s.Cluster, f) {
		if !finding.Block {
			continue
		}
		if !transient[finding.Check] {
			return ""
		}
		if why == "" {
			why = finding.Where + ": " + finding.Text
		}
	}
	return why
}

// begun reports whether a run to the target has left traces that say it did not come to its end.
func begun(f Facts) bool {
	for _, h := range f.Hosts {
		for file := range h.Staged {
			if strings.HasPrefix(file, path.Join(stageDir, f.Target)+"/") {
				return true
			}
		}
	}
	return false
}

// awaitUnits waits for kubeadm runs that are still going on any host. A host that cannot be asked is
// a finding of the checks, not of this.
func (s *Session) awaitUnits(ctx context.Context, log engine.Logf) error {
	var mu sync.Mutex
	var errs []error
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		log(format, args...)
	}
	s.eachHost(func(h config.Host) {
		for _, unit := range unitsOf(h.Role, s.releases()) {
			record, err := s.host(h.Name).UnitRecord(ctx, unit)
			if err != nil {
				return
			}
			if record.State != hosts.Running {
				continue
			}
			say("%s: %s of an earlier run is still at work since %s; waiting for its end",
				h.Name, unit, record.Started.Local().Format(time.TimeOnly))
			if err := s.awaitUnit(ctx, h.Name, unit); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				return
			}
			say("%s: %s has ended", h.Name, unit)
		}
	})
	return errors.Join(errs...)
}

func (s *Session) awaitUnit(ctx context.Context, host, unit string) error {
	return poll(ctx, s.Cluster.Timeouts.Kubeadm, 2*time.Second, func(ctx context.Context) (bool, error) {
		record, err := s.host(host).UnitRecord(ctx, unit)
		if err == nil && record.State == hosts.Running {
			err = fmt.Errorf("%s is still running on %s", unit, host)
		}
		return err == nil, err
	})
}
