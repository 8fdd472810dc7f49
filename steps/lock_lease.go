package steps

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// The Lease kube-system/kuberung. Its holderIdentity is "anna@laptop/RUN"; what else is known of the holder stands in
// annotations, where kubectl describe shows it.
const (
	leaseName         = "kuberung"
	pidAnnotation     = "kuberung.io/pid"
	processAnnotation = "kuberung.io/process"
	doesAnnotation    = "kuberung.io/does"
)

func (s *Session) leases() coordinationclient.LeaseInterface {
	return s.api().CoordinationV1().Leases(metav1.NamespaceSystem)
}

// write makes a Lease the holder's, from now on.
func (h Holder) write(lease *coordinationv1.Lease, now time.Time) {
	identity, seconds, at := h.Name+"/"+h.Run, int32(lockTerm/time.Second), metav1.NewMicroTime(now)
	lease.Name, lease.Namespace = leaseName, metav1.NamespaceSystem
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[pidAnnotation] = strconv.Itoa(h.PID)
	lease.Annotations[processAnnotation] = h.Process
	lease.Annotations[doesAnnotation] = h.Does
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &identity, &seconds
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &at, &at
}

// heldBy understands a Lease, with the time that the API server says it is.
func heldBy(lease *coordinationv1.Lease, now time.Time) Held {
	h := Held{Term: lockTerm, Age: never}
	if lease.Spec.HolderIdentity != nil {
		h.Name, h.Run = *lease.Spec.HolderIdentity, *lease.Spec.HolderIdentity
		if i := strings.LastIndex(h.Name, "/"); i >= 0 {
			h.Name, h.Run = h.Name[:i], h.Name[i+1:]
		}
	}
	h.PID, _ = strconv.Atoi(lease.Annotations[pidAnnotation]) // another's: not known
	h.Process, h.Does = lease.Annotations[processAnnotation], lease.Annotations[doesAnnotation]
	if lease.Spec.LeaseDurationSeconds != nil {
		h.Term = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	if lease.Spec.AcquireTime != nil {
		h.Since = lease.Spec.AcquireTime.Time
	}
	if lease.Spec.RenewTime != nil && h.Run != "" {
		h.Beat = lease.Spec.RenewTime.Time
		h.Age = now.Sub(h.Beat)
	}
	return h
}

// never is the age of a heartbeat that there was not.
const never = time.Duration(1<<63 - 1)

// readLease gives the cluster's lock; nil: there is none.
func (s *Session) readLease(ctx context.Context) (*coordinationv1.Lease, *Held, error) {
	lease, err := s.leases().Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the lock of the cluster: %w", err)
	}
	held := heldBy(lease, s.clusterTime())
	return lease, &held, nil
}

// acquire makes the Lease ours. Of two at once the API server lets one through: a new Lease is created once, one that
// stands there is replaced only as it was read.
func (l *Lock) acquire(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		lease, held, err := l.s.readLease(ctx)
		if err != nil {
			return err
		}
		if held == nil {
			err = l.create(ctx)
		} else if held.Run == l.me.Run {
			return nil // made by a request whose answer was lost
		} else if err = l.mayReplace(ctx, *held); err == nil {
			err = l.replace(ctx, lease)
		}
		raced := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
		if !raced || attempt == 4 {
			return err
		}
	}
}

func (l *Lock) create(ctx context.Context) error {
	l.trying()
	lease := &coordinationv1.Lease{}
	l.me.write(lease, l.s.clusterTime())
	if _, err := l.s.leases().Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("take the lock of the cluster: %w", err)
	}
	return nil
}

func (l *Lock) replace(ctx context.Context, lease *coordinationv1.Lease) error {
	l.trying()
	l.me.write(lease, l.s.clusterTime())
	transitions := int32(1)
	if lease.Spec.LeaseTransitions != nil {
		transitions += *lease.Spec.LeaseTransitions
	}
	lease.Spec.LeaseTransitions = &transitions
	if _, err := l.s.leases().Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("take over the lock of the cluster: %w", err)
	}
	return nil
}

func (l *Lock) trying() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = true
}

// aheadLimit is how far a heartbeat may be ahead of the API server that is asked: API servers' clocks are not the same.
const aheadLimit = time.Minute

// mayReplace says whether a lock that another run took may be taken from it.
func (l *Lock) mayReplace(ctx context.Context, held Held) error {
	switch {
	case held.Run == "":
		return nil
	case l.gone(held.Holder):
		l.log("taking over the lock of %s: its process %d on this machine has ended", held.Name, held.PID)
		return nil
	case held.Age == never:
		l.log("taking over the lock of %s: it never had a heartbeat", held.Name)
		return nil
	case held.Expired():
		l.log("taking over the lock of %s: no heartbeat for %s", held.Name, seconds(held.Age))
		return nil
	case held.Age < -aheadLimit:
		return l.watch(ctx, held)
	}
	return &HeldError{held}
}

// watch is for a lock whose times mean nothing: it is free when its heartbeat stands still for its whole term, which
// only our own clock measures.
func (l *Lock) watch(ctx context.Context, held Held) error {
	l.log("the heartbeat in the lock of %s is %s ahead of the API server's clock; watching for %s whether it still beats",
		held.Name, seconds(-held.Age), held.Term)
	began, beats := time.Now(), false
	err := poll(ctx, held.Term+2*beatLimit, lockBeat, func(ctx context.Context) (bool, error) {
		_, now, err := l.s.readLease(ctx)
		if err != nil {
			return false, err
		}
		beats = now != nil && (now.Run != held.Run || !now.Beat.Equal(held.Beat))
		return now == nil || beats || time.Since(began) > held.Term, nil
	})
	if err == nil && beats {
		return &HeldError{held}
	}
	return err
}

// removeLease removes the lock of a run, and no other: a *[HeldError] says whose it is instead. A heartbeat that comes
// between the look and the removal makes it look again.
func (s *Session) removeLease(ctx context.Context, run string) error {
	for attempt := 0; ; attempt++ {
		lease, held, err := s.readLease(ctx)
		if err != nil || held == nil {
			return err
		}
		if held.Run != run {
			return &HeldError{*held}
		}
		err = s.leases().Delete(ctx, leaseName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &lease.UID, ResourceVersion: &lease.ResourceVersion,
		}})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == 4 {
			return fmt.Errorf("remove the lock of the cluster: %w", err)
		}
	}
}
