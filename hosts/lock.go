package hosts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Lock says who changes a host: a file on it with a heartbeat. It outlives connections, and expires by itself
// when nobody renews it.
type Lock struct {
	// ID is whose lock it is: letters, digits, dot, dash, underscore. Empty: there is none.
	ID string
	// Note is one line for whoever finds the lock.
	Note string
	// Term is for how long it holds after its last heartbeat, in whole seconds.
	Term time.Duration
	// Age is the time since the last heartbeat. The host counts it from its own boot, so no clock that is set
	// changes it; a lock from before the last boot is as old as that, for its holder may still wait for the host.
	Age time.Duration
}

// Expired reports whether anybody may take the lock.
func (l Lock) Expired() bool { return l.ID == "" || l.Age > l.Term }

// What becomes of a lock. Match with errors.Is.
var (
	ErrLocked   = errors.New("locked by another")
	ErrLockLost = errors.New("the lock is not ours any more")
)

// TakeLock takes the host's lock: if there is none, it is expired, it has the same ID, or the ID over, whose
// holder the caller knows to be gone. Otherwise it gives the lock that stands there and an error that matches
// [ErrLocked]. Of two callers at once one gets it.
func (h *Host) TakeLock(ctx context.Context, l Lock, over string) (Lock, error) {
	if err := checkLock(l); err != nil {
		return Lock{}, err
	}
	word, found, err := h.askLock(ctx, "take the lock", takeText, l.ID, seconds(l.Term), l.Note, over)
	if err == nil && word == "held" {
		err = fmt.Errorf("host %s: %w", h.Name(), ErrLocked)
	}
	return found, err
}

// RenewLock is a heartbeat of a lock that was taken. One that is gone, or another's, gives [ErrLockLost] and what
// stands there instead.
func (h *Host) RenewLock(ctx context.Context, id string) (Lock, error) {
	word, found, err := h.askLock(ctx, "renew the lock", renewText, id)
	if err == nil && word == "lost" {
		err = fmt.Errorf("host %s: %w", h.Name(), ErrLockLost)
	}
	return found, err
}

// ReadLock gives the lock that stands on the host, expired or not, and changes nothing.
func (h *Host) ReadLock(ctx context.Context) (Lock, error) {
	_, found, err := h.askLock(ctx, "read the lock", "look; report found", "")
	return found, err
}

// DropLock removes the lock if it has this ID. Another's is left alone.
func (h *Host) DropLock(ctx context.Context, id string) error {
	_, _, err := h.askLock(ctx, "drop the lock", dropText, id)
	return err
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

func checkLock(l Lock) error {
	switch {
	case !unitName.MatchString(l.ID):
		return fmt.Errorf("lock %q: want letters, digits, dots, dashes and underscores, at most 100", l.ID)
	case l.Term < time.Second:
		return fmt.Errorf("lock %s: a term of %v is no time", l.ID, l.Term)
	case strings.ContainsAny(l.Note, "\x00\n\r"):
		return fmt.Errorf("lock %s: its note is more than a line", l.ID)
	}
	return nil
}

// askLock runs one of the scripts below and understands what it reports.
func (h *Host) askLock(ctx context.Context, label, text string, args ...string) (word string, found Lock, err error) {
	out, err := h.exec(ctx, request{
		label: label, text: lockText + text, args: append([]string{h.tune.stateDir}, args...), privileged: true,
	})
	if err != nil {
		return "", Lock{}, err
	}
	return parseLock(string(out))
}

// parseLock reads the answer of a lock script: "held 30 240 ID" and on a second line the note.
func parseLock(text string) (word string, l Lock, err error) {
	first, note, _ := strings.Cut(text, "\n")
	f := strings.Fields(first)
	if len(f) < 3 || len(f) > 4 {
		return "", Lock{}, fmt.Errorf("lock report %q is incomplete", shorten(text, 200))
	}
	age, errAge := strconv.Atoi(f[1])
	term, errTerm := strconv.Atoi(f[2])
	if err := errors.Join(errAge, errTerm); err != nil {
		return "", Lock{}, fmt.Errorf("lock report %q: %w", shorten(text, 200), err)
	}
	if len(f) == 3 {
		return f[0], Lock{}, nil
	}
	return f[0], Lock{
		ID: f[3], Note: strings.TrimSuffix(note, "\n"),
		Age: time.Duration(age) * time.Second, Term: time.Duration(term) * time.Second,
	}, nil
}

// lockText is the head of every lock script. Arguments: the state directory, the caller's ID. The file holds
// two lines: ID, term, boot and seconds since that boot; the note.
const lockText = `
base=$1 me=$2 file=$1/lock
umask 022
read -r up idle </proc/uptime && boot=$(cat /proc/sys/kernel/random/boot_id) || exit 71
up=${up%%.*}
alone() {
	mkdir -p "$base" && chown 0:0 "$base" && chmod 0755 "$base" && exec 9>"$base/.lock" && flock -w 20 9 ||
		{ echo "cannot lock $base" >&2; exit 71; }
}
look() {
	id= term=0 when= at=0 note= age=0
	[ -e "$file" ] || return 0
	{ read -r id term when at && IFS= read -r note; } <"$file" && { [ "$term" -ge 0 ] && [ "$at" -lt 999999999999 ]; } 2>/dev/null ||
		{ echo "$file says nothing that can be understood; remove it if nobody changes this host" >&2; exit 71; }
	age=$up
	[ "$when" != "$boot" ] || age=$((up - at))
	[ "$age" -ge 0 ] || age=0
}
report() { printf '%s %s %s %s\n%s\n' "$1" "$age" "$term" "$id" "$note"; }
put() {
	printf '%s %s %s %s\n%s\n' "$id" "$term" "$boot" "$up" "$note" >"$base/.lock.new" &&
		sync "$base/.lock.new" && mv -f "$base/.lock.new" "$file" && sync "$base" || exit 71
	age=0
}
`

// takeText takes the lock. Further arguments: term, note, the ID of a holder that is gone.
const takeText = `
alone
look
[ -z "$id" ] || [ "$age" -gt "$term" ] || [ "$id" = "$me" ] || [ "$id" = "$5" ] || { report held; exit 0; }
id=$me term=$3 note=$4
put
report taken`

const renewText = `
alone
look
[ "$id" = "$me" ] || { report lost; exit 0; }
put
report renewed`

const dropText = `
alone
look
[ -z "$id" ] || [ "$id" != "$me" ] || { rm -f "$file" && sync "$base" || exit 71; }
report dropped`
