package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Owner is a run that holds locks.
type Owner struct {
	Holder
	Held []Held // the lock of the cluster first
}

// Expired reports whether anybody may take all of its locks.
func (o Owner) Expired() bool {
	return !slices.ContainsFunc(o.Held, func(h Held) bool { return !h.Expired() })
}

// Owners groups the locks that were found by the run that holds them.
func (b Beside) Owners() []Owner {
	var owners []Owner
	add := func(h Held) {
		i := slices.IndexFunc(owners, func(o Owner) bool { return o.Run == h.Run })
		if i < 0 {
			owners, i = append(owners, Owner{Holder: h.Holder}), len(owners)
		}
		owners[i].Held = append(owners[i].Held, h)
	}
	if b.Lock != nil {
		add(*b.Lock)
	}
	for _, h := range b.HostLocks {
		add(h)
	}
	return owners
}

// Unread says which locks could not be read; nil: all were.
func (b Beside) Unread() error {
	var errs []error
	if b.LockErr != nil {
		errs = append(errs, fmt.Errorf("the lock of the cluster could not be read: %w", b.LockErr))
	}
	for _, name := range sorted(b.Failed) {
		errs = append(errs, fmt.Errorf("the lock of %s could not be read, if it has one it expires by itself: %w", name, b.Failed[name]))
	}
	return errors.Join(errs...)
}

// Unlock removes the locks of a run, and no others: that of the cluster first, so that the run, if it lives, starts
// nothing new. What was removed by somebody else meanwhile is no error.
func (s *Session) Unlock(ctx context.Context, o Owner) error {
	var errs []error
	for _, h := range o.Held {
		var err error
		if h.Host == "" {
			err = s.removeLease(ctx, o.Run)
			var other *HeldError
			if errors.As(err, &other) {
				err = fmt.Errorf("meanwhile the lock is another's, and stays: %w", other)
			}
		} else if err = s.host(h.Host).DropLock(ctx, o.Run); err != nil {
			err = fmt.Errorf("the lock of %s stays until it expires: %w", h.Host, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Hosts lists the hosts on which the run has a lock.
func (o Owner) Hosts() string {
	var names []string
	for _, h := range o.Held {
		if h.Host != "" {
			names = append(names, h.Host)
		}
	}
	return strings.Join(names, ", ")
}
