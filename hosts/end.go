package hosts

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"time"
)

// endLimit is how long ending a remote process may hold up a call whose context is over.
const endLimit = 2 * time.Second

// killTree ends a process and all its descendants.
const killTree = `
all=$1 next=$1
while [ -n "$next" ]; do
	found=
	for p in $next; do found="$found $(cat /proc/"$p"/task/*/children 2>/dev/null)"; done
	next=$(echo $found)
	all="$next $all"
done
kill -TERM $all`

// end stops the remote process: by an SSH signal, which sshd delivers to processes of the login user, and by
// killing the tree under the pid it told us, as root if it is root's. Best effort; the caller has its error.
func (h *Host) end(ctx context.Context, s *session, stdout *output, privileged bool) {
	if !s.conn.alive() {
		return
	}
	// The caller's context is over; this must happen all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	if ctx.Err() != nil {
		return
	}
	pid, known := stdout.pid()
	if known {
		if spare, err := s.conn.spareSession(ctx); err == nil {
			_, _ = h.runOnce(ctx, spare, request{label: "kill", text: killTree, args: []string{strconv.Itoa(pid)}, privileged: privileged})
			spare.Close()
		}
	}
	s.signal("TERM")
}

// runOnce is runOn without ending the process in turn.
func (h *Host) runOnce(ctx context.Context, s *session, r request) ([]byte, error) {
	nonce := rand.Text()
	if err := s.ask(ctx, "exec", text(h.command(r.privileged))); err != nil {
		return nil, err
	}
	go func() { _ = feed(s, oneLine(h.script(r, nonce)), nil) }()
	drained := collect(s, io.Discard, io.Discard)
	select {
	case <-s.exited:
		return nil, nil
	case <-drained:
		return nil, errors.New("session closed")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
