package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// Enter is for [engine.Options]: a lane starts only while the lock of the cluster is ours, and with the lock of its
// host, which is given back when the lane has ended. If another run takes the host meanwhile, because nothing was heard
// of us for a whole term, the lane is ended: two must not change one host. A session without a lock, as tests have it,
// locks nothing.
func (s *Session) Enter(ctx context.Context, target string) (inside context.Context, leave func(), err error) {
	l := s.ownLock()
	if l == nil {
		return ctx, func() {}, nil
	}
	if err := l.confirm(ctx); err != nil {
		return nil, nil, err
	}
	h := s.host(target)
	if h == nil {
		return ctx, func() {}, nil // of the whole cluster
	}
	if err := l.takeHost(ctx, h); err != nil {
		return nil, nil, err
	}
	inside, end := context.WithCancelCause(ctx)
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(l.keepHost(beating, h))
	}()
	return inside, func() {
		cancel()
		<-ended
		l.leaveHost(ctx, h)
	}, nil
}

func (l *Lock) hostLock() (hosts.Lock, error) {
	note, err := json.Marshal(l.me)
	return hosts.Lock{ID: l.me.Run, Note: string(note), Term: hostTerm}, err
}

// takeHost takes the lock of a host. A host that does not answer is asked again, as when facts are read.
func (l *Lock) takeHost(ctx context.Context, h *hosts.Host) error {
	want, err := l.hostLock()
	if err != nil {
		return err
	}
	var held *Held
	err = poll(ctx, l.s.Cluster.Timeouts.Observe, 2*time.Second, func(ctx context.Context) (bool, error) {
		found, err := h.TakeLock(ctx, want, "")
		other := heldOn(h.Name(), found)
		if errors.Is(err, hosts.ErrLocked) && l.gone(other.Holder) {
			l.log("taking over the lock of %s on %s: its process %d on this machine has ended", other.Name, h.Name(), other.PID)
			found, err = h.TakeLock(ctx, want, found.ID)
			other = heldOn(h.Name(), found)
		}
		if errors.Is(err, hosts.ErrLocked) {
			held = &other
			return true, nil
		}
		return err == nil, err
	})
	if err == nil && held != nil {
		return fmt.Errorf("%w; wait for its end, then run the same command again", &HeldError{*held})
	}
	return err
}

// heldOn understands a lock that a host has.
func heldOn(host string, found hosts.Lock) Held {
	h := Held{Host: host, Age: found.Age, Term: found.Term}
	if err := json.Unmarshal([]byte(found.Note), &h.Holder); err != nil || h.Name == "" {
		h.Holder = Holder{Name: "somebody", Does: found.Note}
	}
	h.Run = found.ID
	return h
}

// keepHost beats until ctx ends, or says how the lock of the host was lost. It looks at the clock more often than it
// beats: a machine that slept has to ask at once.
func (l *Lock) keepHost(ctx context.Context, h *hosts.Host) error {
	ticker := time.NewTicker(l.every / 6)
	defer ticker.Stop()
	last := time.Now().Round(0) // by the clock that goes on while a machine sleeps
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if now := time.Now().Round(0); now.Sub(last) < l.every {
			continue
		}
		last = time.Now().Round(0)
		found, err := l.renewHost(ctx, h)
		if errors.Is(err, hosts.ErrLockLost) { // for any other reason the next one is another try
			why := lostHost(h.Name(), found)
			l.lose(why)
			return why
		}
	}
}

func lostHost(host string, found hosts.Lock) error {
	if found.ID == "" {
		return fmt.Errorf("the lock of %s was removed, as kuberung unlock does, so its lane was ended", host)
	}
	return fmt.Errorf("the lock of %s was lost, so its lane was ended: %w", host, &HeldError{heldOn(host, found)})
}

func (l *Lock) renewHost(ctx context.Context, h *hosts.Host) (hosts.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, beatLimit)
	defer cancel()
	return h.RenewLock(ctx, l.me.Run)
}

// leaveHost gives a host's lock back. If that does not succeed, it expires by itself.
func (l *Lock) leaveHost(ctx context.Context, h *hosts.Host) {
	limit := releaseLimit
	if ctx.Err() != nil {
		limit = hurriedLimit
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := h.DropLock(ctx, l.me.Run); err != nil {
		l.log("the lock of %s could not be given back, it expires by itself within %s: %v", h.Name(), hostTerm, err)
	}
}

// hostsFree is for a run that has no lock of the cluster yet, because its API does not answer: the hosts then tell who
// is at work on them. A host that cannot be asked is a finding of the checks.
func (s *Session) hostsFree(ctx context.Context) error {
	l := s.ownLock()
	if l == nil || l.Held() {
		return nil
	}
	locks, _ := s.hostLocks(ctx)
	return busy(l, locks)
}

// busy names a run that is at work on a host beside ours.
func busy(l *Lock, locks []Held) error {
	for _, held := range locks {
		if !held.Expired() && held.Run != l.me.Run && !l.gone(held.Holder) {
			return &HeldError{held}
		}
	}
	return nil
}

// underLock takes the lock if the API did not answer before it did now. Then it looks once more: what was seen until
// then another run may have been changing.
func (s *Session) underLock(ctx context.Context, f Facts) (Facts, error) {
	l := s.ownLock()
	if l == nil || l.Held() || f.Cluster.Err != nil {
		return f, nil
	}
	if err := l.Take(ctx); err != nil {
		return f, err
	}
	return s.Observe(ctx), nil
}

func (s *Session) ownLock() *Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock
}

// hostLocks reads the locks of all hosts, in the order of the cluster file, and why some could not be read.
func (s *Session) hostLocks(ctx context.Context) ([]Held, map[string]error) {
	var mu sync.Mutex
	found, failed := map[string]Held{}, map[string]error{}
	s.eachHost(func(h config.Host) {
		lock, err := s.host(h.Name).ReadLock(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed[h.Name] = err
		} else if lock.ID != "" {
			found[h.Name] = heldOn(h.Name, lock)
		}
	})
	var locks []Held
	for _, h := range s.Cluster.Hosts {
		if held, ok := found[h.Name]; ok {
			locks = append(locks, held)
		}
	}
	return locks, failed
}
