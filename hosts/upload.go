package hosts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// installLimit is for reading and syncing one large file on a slow disk.
const installLimit = 30 * time.Minute

// prepareText makes the directory uploads arrive in, owned by the login user, because SFTP runs as that user.
// It clears what broken transfers left a day ago, and prints "same" if the final file is there already.
const prepareText = `
base=$4 owner=${SUDO_UID:-0}:${SUDO_GID:-0}
mkdir -p "$base" && chown 0:0 "$base" && chmod 0755 "$base" || exit
mkdir -p "$base/incoming" && chmod 0700 "$base/incoming" && chown "$owner" "$base/incoming" || exit
find "$base/incoming" -type f -mmin +1440 -exec rm -f {} + || exit
[ -f "$1" ] && [ ! -L "$1" ] || exit 0
sum=$(sha256sum <"$1") || exit
[ "${sum%% *}" = "$3" ] || exit 0
chown 0:0 "$1" && chmod "$2" "$1" && echo same`

// adoptText takes an arrived file ("$4") out of the login user's hands before it is verified.
const adoptText = `
case $1 in /*/*) (umask 022; mkdir -p "${1%/*}") || exit ;; esac` + tempText + `
mv -fT "$4" "$tmp" || exit` + installText

// Upload copies a local file to the host as root:root with exactly this mode, parents made with 0755. It
// travels by SFTP into a directory of the login user; root then verifies its sha256, syncs and renames it, so
// a broken transfer leaves nothing under the final name. sha256hex is what the file must be (empty: what it
// is now); a mismatch matches [ErrChecksum]. A file that is there already is not sent. progress, if not nil,
// is told the bytes sent so far; it is not called concurrently.
func (h *Host) Upload(ctx context.Context, local, remote string, mode fs.FileMode, sha256hex string, progress func(sent int64)) error {
	if err := checkTarget(remote); err != nil {
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	if sha256hex == "" {
		if sha256hex, err = digest(f); err != nil {
			return err
		}
	}
	label := "upload " + remote
	said, err := h.exec(ctx, request{
		label: label, text: prepareText, privileged: true, limit: installLimit,
		args: []string{remote, octal(mode), sha256hex, h.tune.stateDir},
	})
	if err != nil || string(said) == "same\n" {
		return err
	}
	arrived := h.tune.stateDir + "/incoming/" + rand.Text()
	if err := h.send(ctx, f, arrived, progress); err != nil {
		return fmt.Errorf("%s to %s: %w", label, h.cfg.Name, err)
	}
	_, err = h.exec(ctx, request{
		label: label, text: adoptText, privileged: true, limit: installLimit,
		args: []string{remote, octal(mode), sha256hex, arrived},
	})
	return checksumError(err)
}

func digest(f *os.File) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
