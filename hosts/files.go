package hosts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// Exit statuses by which our scripts say what happened; nothing a script calls uses them.
const (
	codeAbsent   = 64 // the file is not there
	codeChecksum = 65 // what arrived is not what was sent
)

// readText tells a file that is not there from one that cannot be looked at.
const readText = `
[ -e "$1" ] || [ -L "$1" ] || case $(ls -d -- "$1" 2>&1) in *": No such file or directory" | *": Not a directory") exit 64 ;; esac
exec cat -- "$1"`

// ReadFile reads a file as root. errors.Is(err, fs.ErrNotExist) tells an absent file.
func (h *Host) ReadFile(ctx context.Context, path string) ([]byte, error) {
	data, err := h.exec(ctx, request{label: "read " + path, text: readText, args: []string{path}, privileged: true})
	if exitCode(err) == codeAbsent {
		return nil, h.absent("read", path)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// installText moves what stands in the file "$tmp" to its final name: checked, owned by root, on disk.
// It is shared by WriteFile and Upload; "$1" is the final name, "$2" the mode, "$3" the sha256.
const installText = `
sum=$(sha256sum <"$tmp") || exit
[ "${sum%% *}" = "$3" ] || { echo "sha256 is ${sum%% *}, not $3" >&2; exit 65; }
chown 0:0 "$tmp" && chmod "$2" "$tmp" && sync "$tmp" && mv -fT "$tmp" "$1" && sync "$dir" || exit
trap - EXIT
if [ -d "$selinux/booleans" ] && command -v restorecon >/dev/null; then restorecon "$1"; fi`

// installing prepares a script that ends with installText.
func (h *Host) installing(text string) string { return "selinux=" + Quote(h.tune.selinuxDir) + text }

// tempText picks a temporary name in the directory of "$1" and removes the file unless it was moved away.
const tempText = `
dir=${1%/*}; dir=${dir:-/}
tmp=
trap '[ -z "$tmp" ] || rm -f "$tmp"' EXIT
trap 'exit 143' HUP INT TERM
tmp=$(umask 077; mktemp "$dir/.kuberung.XXXXXXXXXX") || exit`

const writeText = tempText + `
cat >"$tmp" || exit` + installText

// WriteFile writes a file as root:root with exactly this mode, whatever the umask. The directory must exist.
// The file appears whole or not at all: written beside its final name, verified, synced, renamed.
// A symbolic link of that name is replaced, not followed.
func (h *Host) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if err := checkTarget(path); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	_, err := h.exec(ctx, request{
		label: "write " + path, text: h.installing(writeText), stdin: bytes.NewReader(data), privileged: true,
		args: []string{path, octal(mode), hex.EncodeToString(sum[:])},
	})
	return checksumError(err)
}

// checkTarget refuses paths a file cannot be put under.
func checkTarget(path string) error {
	if len(path) < 2 || path[0] != '/' || path[len(path)-1] == '/' {
		return fmt.Errorf("path %q: not the absolute path of a file", path)
	}
	return nil
}

// octal spells the permission bits, setuid, setgid and sticky as chmod reads them.
func octal(mode fs.FileMode) string {
	n := uint64(mode.Perm())
	for bit, value := range map[fs.FileMode]uint64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&bit != 0 {
			n |= value
		}
	}
	return fmt.Sprintf("%04s", strconv.FormatUint(n, 8))
}

func (h *Host) absent(op, path string) error {
	return &fs.PathError{Op: op + " on " + h.name, Path: path, Err: fs.ErrNotExist}
}

// checksumError adds the sentinel to a script that ended with codeChecksum.
func checksumError(err error) error {
	if exitCode(err) == codeChecksum {
		return fmt.Errorf("%w: %w", ErrChecksum, err)
	}
	return err
}

// exitCode is the status in an *ExitError; 0 for anything else.
func exitCode(err error) int {
	var e *ExitError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
