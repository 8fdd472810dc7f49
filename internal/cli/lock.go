package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"sync"
	"time"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

// exclusively does work that changes the cluster while nobody else may. The lock is taken before anything is looked at,
// so that what is checked, shown and asked about is a cluster that nobody else moves; a second run learns in seconds
// who is at work. Where the API does not answer yet, the session takes the lock when it does, or changes nothing.
//
// The work's Stop is also closed when the lock is lost: nothing new starts, what must not be cut comes to its end.
func exclusively(ctx context.Context, p Process, c *config.Cluster, s *steps.Session, does string, work func(Process) error) error {
	return holding(ctx, p, c, s.NewLock(newHolder(does), gone, told(p.Out)), work)
}

// lock is a [steps.Lock].
type lock interface {
	Take(context.Context) error
	Lost() <-chan struct{}
	Err() error
	Release(context.Context) error
}

func holding(ctx context.Context, p Process, c *config.Cluster, l lock, work func(Process) error) error {
	defer func() {
		if err := l.Release(ctx); err != nil {
			fmt.Fprintf(p.Err, "%v\n", err)
		}
	}()
	if err := take(ctx, p, l); err != nil {
		return refused(c, err)
	}
	stop, done := either(p.Stop, l.Lost())
	defer done()
	p.Stop = stop
	return lostOr(p, l.Err, refused(c, work(p)))
}

// take takes the lock unless the API does not answer, which is for the checks to tell. Stopping it is safe.
func take(ctx context.Context, p Process, l lock) error {
	ctx, cancel := stoppable(ctx, p.Stop)
	defer cancel()
	err := l.Take(ctx)
	if ctx.Err() != nil {
		return interrupted(ctx)
	}
	if errors.As(err, new(*steps.HeldError)) {
		return err
	}
	return nil
}

// refused says of a run that found another at work what to do.
func refused(c *config.Cluster, err error) error {
	var held *steps.HeldError
	if !errors.As(err, &held) {
		return err
	}
	return &exitError{codeLocked, fmt.Errorf("%w; nothing was changed\n"+
		"Wait for its end, or end it there with Ctrl-C. If that run is dead, its lock expires by itself, %s after its last\n"+
		"heartbeat. To look: %s. To remove the lock: %s", held, held.Term,
		hosts.Quote("kuberung", "status", "-f", c.File), hosts.Quote("kuberung", "unlock", "-f", c.File))}
}

// lostOr puts the loss of the lock before what became of the work: it is the reason for the rest.
func lostOr(p Process, lost func() error, err error) error {
	why := lost()
	switch {
	case why == nil:
		return err
	case err == nil:
		fmt.Fprintf(p.Err, "%v; all that was planned was done\n", why)
		return nil
	}
	return &exitError{codeFailed, fmt.Errorf("%w\n%w", why, err)}
}

// newHolder names this run for others.
func newHolder(does string) steps.Holder {
	return steps.Holder{
		Run: strings.ToLower(rand.Text()[:10]), Name: operator(), Does: does, Since: time.Now(),
		PID: os.Getpid(), Process: processID(os.Getpid()),
	}
}

// operator is who works here, and where: "anna@laptop".
func operator() string {
	name := os.Getenv("SUDO_USER")
	if me, err := user.Current(); name == "" && err == nil {
		name = me.Username
	}
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return name + "@" + machine
}

// either gives a channel that is closed as soon as one of the two is.
func either(a, b <-chan struct{}) (first <-chan struct{}, done func()) {
	c, end := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-a:
			close(c)
		case <-b:
			close(c)
		case <-end:
		}
	}()
	return c, func() { close(end) }
}

// told writes what happens beside the steps, with the time, once for each new line.
func told(w io.Writer) func(string, ...any) {
	var mu sync.Mutex
	last := ""
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if line := fmt.Sprintf(format, args...); line != last {
			fmt.Fprintf(w, "%s %s\n", time.Now().Format(time.TimeOnly), line)
			last = line
		}
	}
}
