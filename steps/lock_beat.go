package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keep beats until ctx ends or the lock is lost. It never ends a run by itself.
func (l *Lock) keep(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	ticker := time.NewTicker(lockBeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.lostC:
			return
		case <-ticker.C:
			if err := l.beat(ctx); err != nil && ctx.Err() == nil {
				l.muffled(err)
			}
		}
	}
}

// beat renews the lock. An error is a heartbeat that did not get through; a lock that is another's now is lost.
func (l *Lock) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beatLimit, fmt.Errorf("no answer within %s", beatLimit))
	defer cancel()
	lease, held, err := l.s.readLease(ctx)
	if err != nil {
		return err
	}
	if held == nil {
		l.lose(errors.New("the lock of the cluster was removed, as kuberung unlock does; nothing new was started"))
		return nil
	}
	if held.Run != l.me.Run {
		l.lose(fmt.Errorf("the lock of the cluster was lost, so nothing new was started: %w", &HeldError{*held}))
		return nil
	}
	now := metav1.NewMicroTime(l.s.clusterTime())
	lease.Spec.RenewTime = &now
	if _, err := l.s.leases().Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("renew the lock of the cluster: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard, l.quiet = time.Now(), false
	return nil
}

// muffled tells once that heartbeats do not get through, when the lock is about to expire for others.
func (l *Lock) muffled(err error) {
	silence := l.silence()
	l.mu.Lock()
	tell := silence > lockTerm/2 && !l.quiet
	l.quiet = l.quiet || tell
	l.mu.Unlock()
	if tell {
		l.log("no heartbeat of the lock got through for %s; others may take it after %s: %v", seconds(silence), lockTerm, err)
	}
}

// silence is the time since the API said that the lock is ours. The clock that cannot be set stands still while a
// laptop sleeps, so the other one is asked as well.
func (l *Lock) silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return max(now.Sub(l.heard), now.Round(0).Sub(l.heard.Round(0)))
}

// confirm makes sure that the lock is ours before something new starts: after a silence as long as half its term, as
// that of a machine that slept, only the API can tell.
func (l *Lock) confirm(ctx context.Context) error {
	if !l.Held() {
		return errors.New("the lock of the cluster was not taken")
	}
	if l.Err() == nil && l.silence() > lockTerm/2 {
		err := poll(ctx, l.s.Cluster.Timeouts.Observe, 2*time.Second, func(ctx context.Context) (bool, error) {
			err := l.beat(ctx)
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("whether the lock of the cluster is still ours could not be told: %w", err)
		}
	}
	return l.Err()
}
