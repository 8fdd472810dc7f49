date +%s.%N
# Reads the facts of one host and changes nothing. The time comes first: what is done before it is doubt about it.
# $1: the mark that heads every part of the answer. "?NAME" heads the reason why NAME could not be told, "-NAME" says
# that NAME is not there.
mark=$1
PATH=$PATH:/opt/bin
part() { printf '\n%s %s\n' "$mark" "$1"; }
has() { command -v "$1" >/dev/null 2>&1; }

# absent FILE: it is not there. What cannot be looked at may be.
absent() {
	[ ! -e "$1" ] || return 1
	case $(ls -dL "$1" 2>&1) in *': No such file or directory' | *': Not a directory') ;; *) return 1 ;; esac
}

# A program that hangs must not hold up the rest.
limited() { if has timeout; then timeout 20 "$@"; else "$@"; fi; }

# ask NAME COMMAND...: what the command prints is the part NAME.
ask() {
	part=$1
	shift
	if said=$(limited "$@" 2>&1 </dev/null); then part "$part"; else part "?$part"; fi
	printf '%s\n' "$said"
}

# one NAME FILE...: the first of these files that is there.
one() {
	part=$1
	shift
	for f; do absent "$f" || { ask "$part" cat "$f"; return; }; done
	part "-$part"
}

# disk PATH: room, inodes, and the mounts whose options are wanted.
disk() {
	! absent "$1" || { part "-disk $1"; return; }
	ask "inodes $1" df -Pi "$1"
	ask "disk $1" df -Pk "$1"
	mount=$(printf '%s\n' "$said" | sed -n '2s/^.* \(\/.*\)$/\1/p')
	ask "mount $1" grep -F -- " $mount " /proc/mounts
}

# program NAME UNIT ARGUMENT...: the one that UNIT starts, else the one that the search path finds; the arguments let
# it say its version.
program() {
	name=$1 found=
	[ -z "$2" ] || found=$(systemctl show -p ExecStart "$2" 2>/dev/null | sed -n 's/^ExecStart=.*path=\([^ ;]*\).*/\1/p' | head -n 1)
	shift 2
	[ -x "$found" ] || found=$(command -v "$name" 2>/dev/null)
	case $found in /*) ;; *) part "-program $name"; return ;; esac
	real=$(readlink -f "$found") && [ -n "$real" ] || real=$found
	says=$(limited "$real" "$@" 2>/dev/null </dev/null)
	code=$?
	owner "$real" "$found"
	part "program $name"
	printf '%s\n' "path=$found" "real=$real" "package=$package" "doubt=$doubt" "code=$code" "says=$says"
}

# owner PATH...: the package that a file came with, as "name release held"; doubt is why that could not be told. With
# merged /usr the package may know the file under its other name.
owner() {
	package= doubt=
	for f; do case $f in /usr/*) set -- "$@" "${f#/usr}" ;; *) set -- "$@" "/usr$f" ;; esac; done
	if has dpkg-query; then
		said=$(limited dpkg-query -S "$@" 2>&1) || [ $? -lt 124 ] || doubt='dpkg-query hangs'
		package=$(printf '%s\n' "$said" | sed -n '/^diversion /d; /^dpkg-query: /d; s/[:,].*//p' | head -n 1)
		doubt=$doubt$(printf '%s\n' "$said" | sed -n '/^dpkg-query: error: /p' | head -n 1)
		[ -z "$package" ] || package="$package $(dpkg-query -W -f '${Version} ${db:Status-Want}\n' "$package" 2>/dev/null | head -n 1)"
	fi
	[ -z "$package" ] && has rpm || return
	said=$(limited rpm -qf --qf 'owner %{NAME} %{VERSION}-%{RELEASE}\n' "$@" 2>&1) || [ $? -lt 124 ] || doubt='rpm hangs'
	package=$(printf '%s\n' "$said" | sed -n 's/^owner //p' | head -n 1)
	doubt=$doubt$(printf '%s\n' "$said" | sed -n '/: No such file or directory$/d; /^error: /p' | head -n 1)
	[ -n "$package" ] || return
	for f in /etc/dnf/plugins/versionlock.list /etc/yum/pluginconf.d/versionlock.list /etc/dnf/versionlock.toml /etc/zypp/locks; do
		! sed '/^[[:space:]]*#/d' "$f" 2>/dev/null | grep -qw -- "${package%% *}" || { package="$package hold"; return; }
	done
}

# text FILE: its beginning.
text() { if absent "$1"; then part "-file $1"; else ask "file $1" head -c 262144 "$1"; fi; }

# unit NAME: what systemd knows, the files that this comes from, and the command line that runs.
unit() {
	ask "unit $1" systemctl show -p LoadState -p ActiveState -p SubState -p FragmentPath -p DropInPaths -p ExecStart \
		-p Environment -p EnvironmentFiles -p MainPID "$1"
	shown=$said
	# Names with a pattern in them are meant to be expanded.
	for f in $(printf '%s\n' "$shown" | sed -n 's/^FragmentPath=//p; s/^DropInPaths=//p; s/^EnvironmentFiles*=\(.*\) (ignore_errors=.*/\1/p'); do
		text "$f"
	done
	pid=$(printf '%s\n' "$shown" | sed -n 's/^MainPID=//p')
	[ "${pid:-0}" -gt 0 ] 2>/dev/null || return
	part "argv $1"
	tr '\000\012' '\012\036' </proc/"$pid"/cmdline 2>/dev/null
}

# certificates FILE KEY: the certificates in a file, or the values of a key in YAML. The private key that the file may
# hold as well is never read out, however broken the file is.
certificates() {
	! absent "$1" || { part "-certificates $1"; return; }
	if [ -n "$2" ]; then
		ask "certificates $1" sed -n "s/^[ -]*$2: *//p" "$1"
	else
		ask "certificates $1" sed -n '/-----BEGIN CERTIFICATE-----/,/-----END CERTIFICATE-----/{
/PRIVATE KEY/q
p
}' "$1"
	fi
}

ask kernel uname -r
ask machine uname -m
one os /etc/os-release /usr/lib/os-release
one hostname /proc/sys/kernel/hostname
one machine-id /etc/machine-id /var/lib/dbus/machine-id
one boot-id /proc/sys/kernel/random/boot_id
one uptime /proc/uptime
one memory /proc/meminfo
one swap /proc/swaps
ask cgroup grep -E '^[^ ]+ [^ ]+ cgroup2? ' /proc/mounts
if has ip; then ask addresses ip -o addr show up; else ask addresses hostname -I; fi

part packages
if has apt-get && [ -e /var/lib/dpkg/status ]; then echo apt
elif has zypper; then echo zypper
elif has dnf; then echo dnf
elif has yum; then echo yum
else echo none; fi

part init
if [ -d /run/systemd/system ]; then echo systemd; else cat /proc/1/comm 2>/dev/null; fi
! has systemd-run || echo systemd-run
! has systemctl || limited systemctl --version 2>/dev/null | head -n 1

if [ -e /sys/fs/selinux/enforce ]; then ask selinux cat /sys/fs/selinux/enforce
elif [ -e /etc/selinux/config ]; then part selinux; echo disabled
else part selinux; echo absent; fi
one apparmor /sys/module/apparmor/parameters/enabled
