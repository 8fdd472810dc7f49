package steps

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kuberung/kuberung/engine"
)

// The lock of a cluster is a Lease in it; beside that, each host has one of its own while a lane changes it, for
// when the API cannot be asked, or whoever holds the Lease was cut off from it in the middle of a lane.
// docs/lock.md says how both behave.
const (
	lockTerm  = 5 * time.Minute  // API servers restart during the work: a lock must not expire for that
	lockBeat  = 15 * time.Second // a holder that lives is heard of that often
	beatLimit = 30 * time.Second // for one heartbeat; the next one is another try

	// A host's lock ends sooner: where a run died, whoever then gets the Lease finds its hosts free.
	hostTerm = 4 * time.Minute
	hostBeat = 30 * time.Second

	releaseLimit = 15 * time.Second
	hurriedLimit = 5 * time.Second // to release a lock when the operator wants the end at once
)

// Holder is who holds a lock: one run of kuberung.
type Holder struct {
	Run     string    `json:"run"`               // its id, which no other run has
	Name    string    `json:"name"`              // who and where: "anna@laptop"
	PID     int       `json:"pid"`               // of its process
	Process string    `json:"process,omitempty"` // by which its machine tells this process from any other
	Does    string    `json:"does"`              // "upgrade to v1.36.3"
	Since   time.Time `json:"since"`
}

// Held is a lock with its holder, as it was found.
type Held struct {
	Holder
	Host string        // whose lock it is; empty: the whole cluster's
	Beat time.Time     // its last heartbeat, as the lock of the cluster has it
	Age  time.Duration // since its last heartbeat, by the clock of the API server, or of the host
	Term time.Duration // it has expired when Age passes this
	Over bool          // its process, on this very machine, has ended for certain
}

// Expired reports whether anybody may take the lock.
func (h Held) Expired() bool { return h.Over || h.Age > h.Term }

// String names the holder and how fresh its lock is.
func (h Held) String() string {
	what := "this cluster"
	if h.Host != "" {
		what = h.Host
	}
	is := "is"
	if h.Expired() {
		is = "was"
	}
	text := fmt.Sprintf("%s %s at work on %s: %s, since %s, pid %d", h.Name, is, what, h.Does, moment(h.Since), h.PID)
	switch {
	case h.Over:
		return text + ", a process that has ended"
	case h.Age == never:
		return text + ", without any heartbeat"
	case h.Age < -2*time.Second: // below that it is the API server's Date, which has whole seconds
		return fmt.Sprintf("%s, with a heartbeat that is %s ahead of the API server's clock", text, seconds(-h.Age))
	}
	return fmt.Sprintf("%s, last heartbeat %s ago", text, seconds(max(h.Age, 0)))
}

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func seconds(d time.Duration) string { return d.Round(time.Second).String() }

// HeldError says that somebody else is at work.
type HeldError struct{ Held }

// Error names the holder.
func (e *HeldError) Error() string { return e.String() }

// Lock keeps other runs from a cluster while one works on it. It is lost if another run took it while we were cut off,
// or somebody removed it; then nothing new may start. A heartbeat that fails is no loss: the next one is another try.
type Lock struct {
	s    *Session
	me   Holder
	gone func(Holder) bool
	log  engine.Logf

	lostC chan struct{}
	every time.Duration // between heartbeats of a host's lock

	mu    sync.Mutex
	tried bool // a Lease may stand there, whatever the answer was
	held  bool
	heard time.Time // when the API last said that the lock is ours
	quiet bool      // it was told that no heartbeat gets through
	lost  error
	end   context.CancelFunc // of the heartbeat
	ended chan struct{}
}

// NewLock prepares the session's lock and takes nothing yet. Gone says of a holder whether its process, on this very
// machine, has ended for certain. What happens to the lock by itself is told to log, from any goroutine.
func (s *Session) NewLock(me Holder, gone func(Holder) bool, log engine.Logf) *Lock {
	l := &Lock{s: s, me: me, gone: gone, log: log, lostC: make(chan struct{}), every: hostBeat}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lock = l
	return l
}

// Take takes the lock and keeps it, with a heartbeat, until it is released. A *[HeldError] says that another run has
// it; any other error that the API could not be asked, which says nothing of others. It may be called again.
func (l *Lock) Take(ctx context.Context) error {
	if l.Held() {
		return nil
	}
	if err := l.s.reachAPI(ctx); err != nil {
		return err
	}
	if err := l.acquire(ctx); err != nil {
		return err
	}
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.heard = true, time.Now()
	l.end, l.ended = cancel, make(chan struct{})
	go l.keep(beating, l.ended)
	return nil
}

// Held reports whether the lock was taken and not released, lost or not.
func (l *Lock) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Lost is closed when the lock is not ours any more. Err then says why.
func (l *Lock) Lost() <-chan struct{} { return l.lostC }

// Err says how the lock was lost; nil: it was not.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *Lock) lose(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = why
		close(l.lostC)
	}
}

// Release gives the lock back, also when ctx has ended, but not for long: it expires by itself.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	tried, end, ended := l.tried, l.end, l.ended
	l.end, l.held = nil, false
	l.mu.Unlock()
	if end != nil {
		end()
		<-ended
	}
	if !tried || l.Err() != nil {
		return nil
	}
	limit := releaseLimit
	if ctx.Err() != nil {
		limit = hurriedLimit
	}
	err := poll(context.WithoutCancel(ctx), limit, time.Second, func(ctx context.Context) (bool, error) {
		err := l.s.removeLease(ctx, l.me.Run)
		return err == nil || errors.As(err, new(*HeldError)), err
	})
	if err != nil {
		return fmt.Errorf("the lock of the cluster could not be released, it expires by itself within %s: %w", lockTerm, err)
	}
	return nil
}
