package hosts

import (
	"context"
	"strconv"
	"time"
)

// endLimit is how long ending a remote process may hold up a call whose context is over: killTree takes a second where
// a program does not care about SIGTERM.
const endLimit = 5 * time.Second

// killTree ends a process and all its descendants: it asks them to end, and makes those end that are there a second
// later. They are found before, because what has lost its parent is found no more. A number alone says nothing then, it
// may be another process's; with its start it does.
const killTree = `
start() { read -r stat <"/proc/$1/stat" && set -- ${stat##*) } && [ "$1" != Z ] && echo "${20}"; }
known=
find() {
	next=$*
	while [ -n "$next" ]; do
		for p in $next; do
			case " $known" in *" $p:"*) ;; *) known="$known $p:$(start "$p")" ;; esac
		done
		next=$(for p in $next; do cat "/proc/$p"/task/*/children; done)
		next=$(echo $next)
	done
}
look() {
	live=
	for p in $known; do
		began=$(start "${p%:*}")
		[ -z "$began" ] || [ "$began" != "${p#*:}" ] || live="$live ${p%:*}"
	done
	[ -n "$live" ]
}
{
	find "$1"
	look && kill -TERM $live
	for wait in 1 2 3 4 5 6 7 8 9 10; do
		look || exit 0
		find $live
		sleep 0.1 || sleep 1
	done
	look && kill -KILL $live
	exit 0
} 2>/dev/null`

// end stops the remote process: by an SSH signal, which sshd delivers to processes of the login user, and by
// killing the tree under the pid it told us, as root if it is root's. Best effort; the caller has its error.
func (h *Host) end(ctx context.Context, s *session, stdout *output, privileged bool) {
	if !s.conn.alive() {
		return
	}
	// The caller's context is over; this must happen all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	if pid, known := stdout.pid(); known {
		h.kill(ctx, s.conn, pid, privileged)
	}
	s.signal("TERM")
}

// kill runs killTree in a session beyond the slots.
func (h *Host) kill(ctx context.Context, conn *conn, pid int, privileged bool) {
	r := request{label: "kill", text: killTree, args: []string{strconv.Itoa(pid)}, privileged: privileged, limit: endLimit}
	c := &call{host: h, req: r, sure: true, last: true}
	if c.prepare(ctx) != nil {
		return
	}
	defer c.pass.leave()
	spare, err := conn.spareSession(ctx)
	if err != nil {
		return
	}
	defer spare.Close()
	_, _ = c.run(ctx, spare)
}
