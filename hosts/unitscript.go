package hosts

import "strings"

// Exit statuses of the unit scripts.
const (
	codeNoSystemd = 70 // no systemd-run, or systemd does not run the host
	codeUntold    = 71 // the state could not be told
	codeRunning   = 72 // asked to forget a running unit
)

// unitText is the head of every unit script. Arguments: the state directory, the unit's name.
// "look" asks systemd first and reads the files afterwards: the wrapper writes its result before it ends, so
// a unit that systemd calls ended has its result on disk or never will. A queued job counts as live: after
// systemd-run --no-block the unit is inactive for a moment. Started twice is worse than waited for, so
// anything not understood is an error.
const unitText = `
base=$1 name=$2 unit=kuberung-$2.service units=$1/units
dir=$units/$name bootid=/proc/sys/kernel/random/boot_id
umask 077
look() {
	props=$(systemctl show -p ActiveState -p Job "$unit" 2>&1) || {
		printf '%s\n' "$props" >&2
		case $props in *'not been booted with systemd'*) exit 70 ;; esac
		exit 71
	}
	active= job= live=1 state= id= claimed=0 result= size=0 started= rebooted=0
	for p in $props; do
		case $p in ActiveState=*) active=${p#*=} ;; Job=*) job=${p#*=} ;; esac
	done
	case $active in
	active | activating | deactivating | reloading | refreshing | maintenance) ;;
	inactive | failed) case $job in '' | 0) live=0 ;; esac ;;
	*) echo "systemd says '$active' of $unit" >&2; exit 71 ;;
	esac
	[ ! -f "$dir/id" ] || { id=$(cat "$dir/id") || exit 71; }
	[ ! -f "$dir/claimed" ] || claimed=1
	[ ! -f "$dir/output" ] || { size=$(wc -c <"$dir/output") || exit 71; }
	[ ! -f "$dir/started" ] || { started=$(cat "$dir/started") || exit 71; }
	if [ -f "$dir/status" ]; then
		state=exited; result=$(cat "$dir/status") || exit 71
	elif [ $live = 1 ]; then state=running
	elif [ -n "$id" ]; then
		state=interrupted
		# A record of an older kuberung has no boot.
		if [ -f "$dir/boot" ]; then
			was=$(cat "$dir/boot") && now=$(cat "$bootid") || exit 71
			[ "$was" = "$now" ] || rebooted=1
		fi
	else state=none
	fi
}
report() {
	printf '%s\n' "state=$state live=$live claimed=$claimed rebooted=$rebooted size=$((size)) ${id:+id=$id} ${started:+started=$started} $result"
}
lock() {
	mkdir -p "$units/.previous" && chown 0:0 "$base" "$units" && chmod 0755 "$base" && chmod 0700 "$units" &&
		exec 9>"$units/.lock" && flock -w 20 9 || { echo "cannot lock $units" >&2; exit 71; }
}
`

// beginText finds or starts a unit. Further arguments: this run's id, the wrapper's length; standard input is
// the wrapper. A record with our own id is the outcome of an earlier attempt whose answer was lost.
// A unit that systemd-run refuses because it exists is reported like one that was found.
const beginText = `
command -v systemd-run >/dev/null || { echo "systemd-run not found" >&2; exit 70; }
lock
look
case $state in
running) report; exit ;;
exited) [ $claimed = 1 ] && [ $live = 0 ] || { report; exit; } ;;
esac
[ "$id" != "$3" ] || { report; exit; }
new=$units/.new
rm -rf "$new" && mkdir "$new" && cat >"$new/wrapper" || exit
[ "$(($(wc -c <"$new/wrapper")))" = "$4" ] || { echo "wrapper arrived incomplete" >&2; exit 71; }
: >"$new/output" && printf '%s\n' "$3" >"$new/id" && cat "$bootid" >"$new/boot" && sync "$new"/* "$new" || exit
old=$units/.previous/$name
if [ -d "$dir" ]; then rm -rf "$old" && mv "$dir" "$old" || exit; fi
mv "$new" "$dir" && sync "$units" || exit
systemctl reset-failed "$unit" 2>/dev/null
said=$(systemd-run --quiet --no-block --unit="$unit" --description="kuberung: $name" /bin/sh "$dir/wrapper" 2>&1 9>&-) && { look; report; exit; }
code=$?
look
case $live.$said in
1.*exist* | 0.*) rm -rf "$dir"; [ ! -d "$old" ] || mv "$old" "$dir"; look ;;
esac
[ $live = 0 ] || { report; exit; }
printf '%s\n' "$said" >&2
exit $code`

// pollText prints a report and output. Further arguments: where to start (bytes; negative: that many from the
// end), how much at most.
const pollText = `
look
report
[ "$size" -gt 0 ] || exit 0
from=$3
[ "$from" -ge 0 ] || from=$((size + from))
[ "$from" -ge 0 ] || from=0
[ "$from" -lt "$size" ] || exit 0
tail -c +$((from + 1)) "$dir/output" | head -c "$4"`

// claimText marks a result as read. Further argument: the id of the run it belongs to.
const claimText = `
lock
look
[ "$state" = exited ] && [ "$id" = "$3" ] || exit 0
: >"$dir/claimed" && sync "$dir/claimed" "$dir" || exit
systemctl reset-failed "$unit" 2>/dev/null
exit 0`

const forgetText = `
lock
look
[ $live = 0 ] || { echo "$unit is running" >&2; exit 72; }
rm -rf "$dir" "$units/.previous/$name" || exit
systemctl reset-failed "$unit" 2>/dev/null
exit 0`

// wrapperText runs one command and writes down how it ended, synced and renamed, file and directory. A result
// is there whole or not at all; none and no unit means interrupted.
const wrapperText = `
put() { cat >"$dir/.$1" && sync "$dir/.$1" && mv -f "$dir/.$1" "$dir/$1" && sync "$dir"; }
cd / && umask 077 || exit
started=$(date +%s)
echo "$started" | put started
(umask 022; exec "$@") </dev/null >>"$dir/output" 2>&1
code=$?
sync "$dir/output"
echo "code=$code started=$started ended=$(date +%s)" | put status
exit $code
`

// wrapper is the text of a unit's wrapper: it holds the command, so that no list of processes or units does.
func wrapper(dir string, argv []string) string {
	var b strings.Builder
	b.WriteString("dir=" + Quote(dir) + "\n")
	b.WriteString("case :$PATH: in *:/usr/sbin:*) ;; *) PATH=${PATH:+$PATH:}" + searchPath + " ;; esac\nHOME=/root LC_ALL=C; export PATH HOME LC_ALL\n")
	b.WriteString("set -- " + Quote(argv...))
	b.WriteString(wrapperText)
	return b.String()
}
