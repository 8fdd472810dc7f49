package hosts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	installLimit   = 30 * time.Minute // for reading and syncing one large file on a slow disk
	uploadAttempts = 3                // over lines that break
)

// prepareText makes the directory uploads arrive in, owned by the login user, because transfers run as that user.
// It clears what this upload's last attempt ("$5") left there, and what others left a day ago, and prints "same" if
// the final file is there already.
const prepareText = `
base=$4 owner=${SUDO_UID:-0}:${SUDO_GID:-0}
mkdir -p "$base" && chown 0:0 "$base" && chmod 0755 "$base" || exit
mkdir -p "$base/incoming" && chmod 0700 "$base/incoming" && chown "$owner" "$base/incoming" || exit
find "$base/incoming" -type f -mmin +1440 -exec rm -f {} + || exit
[ -z "$5" ] || rm -f "$5" || exit
[ -f "$1" ] && [ ! -L "$1" ] || exit 0
sum=$(sha256sum <"$1") || exit
[ "${sum%% *}" = "$3" ] || exit 0
chown 0:0 "$1" && chmod "$2" "$1" && echo same`

// adoptText takes an arrived file ("$4") out of the login user's hands before it is verified.
const adoptText = `
case $1 in /*/*) (umask 022; mkdir -p "${1%/*}") || exit ;; esac` + tempText + `
mv -fT "$4" "$tmp" || exit` + installText

// Upload copies a local file to the host as root:root with exactly this mode, parents made with 0755. It
// travels by SFTP, or by cat where that does not work, into a directory of the login user; root then verifies its
// sha256, syncs and renames it, so a broken transfer leaves nothing under the final name. A transfer that a lost
// connection cut is made again, three times in all. sha256hex is what the file must be (empty: what it is now); a
// mismatch matches [ErrChecksum]. A file that is there already is not sent. progress, if not nil, is told the bytes
// sent so far, from 0 whenever a transfer starts; it is not called concurrently.
func (h *Host) Upload(ctx context.Context, local, remote string, mode fs.FileMode, sha256hex string, progress func(sent int64)) error {
	if err := checkTarget(remote); err != nil {
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	u := upload{host: h, src: f, size: info.Size(), remote: remote, mode: mode, sum: sha256hex, progress: progress}
	if u.sum == "" {
		if u.sum, err = digest(f, u.size); err != nil {
			return err
		}
	}
	attempts := 0
	again := func(err error) bool {
		attempts++
		return attempts < uploadAttempts && errors.Is(err, ErrConnLost)
	}
	return h.retry(ctx, again, func() error { return u.attempt(ctx) })
}

// upload is one file on its way.
type upload struct {
	host     *Host
	src      io.ReaderAt
	size     int64
	remote   string
	mode     fs.FileMode
	sum      string
	progress func(int64)

	arrived string // where the newest attempt puts it on the host; every attempt has a name of its own
}

// attempt is safe to repeat, wherever it was cut: if root's half goes on without us, the next one finds the file.
func (u *upload) attempt(ctx context.Context) error {
	h := u.host
	said, err := u.script(ctx, prepareText, h.tune.stateDir, u.arrived)
	if err != nil || string(said) == "same\n" {
		return err
	}
	u.arrived = h.tune.stateDir + "/incoming/" + rand.Text()
	if err := h.send(ctx, u.src, u.size, u.arrived, u.progress); err != nil {
		return fmt.Errorf("upload %s to %s: %w", u.remote, h.name, err)
	}
	_, err = u.script(ctx, h.installing(adoptText), u.arrived)
	return checksumError(err)
}

// script runs root's part of the work.
func (u *upload) script(ctx context.Context, text string, more ...string) ([]byte, error) {
	return u.host.exec(ctx, request{
		label: "upload " + u.remote, text: text, privileged: true, limit: installLimit,
		args: append([]string{u.remote, octal(u.mode), u.sum}, more...),
	})
}

func digest(f io.ReaderAt, size int64) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
