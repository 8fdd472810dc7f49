# Puts a staged program in place of the installed one, which is kept. Never leaves half a file:
# written beside the target, flushed, renamed.
# $1: staged file  $2: its SHA-256  $3: target  $4: directory that keeps the old one
set -eu
umask 022
printf '%s  %s\n' "$2" "$1" | sha256sum -c --quiet - >&2
name=$(basename "$3")
mkdir -p -m 0700 "$4"
[ -e "$4/$name" ] || { cp -p "$3" "$4/.$name.part" && sync "$4/.$name.part" && mv "$4/.$name.part" "$4/$name"; }
new=$(dirname "$3")/.$name.kuberung
cp "$1" "$new"
chown root:root "$new"
chmod 0755 "$new"
sync "$new"
mv -f "$new" "$3"
sync "$(dirname "$3")"
if command -v restorecon >/dev/null 2>&1; then restorecon "$3"; fi
