//go:build lab

package hosts_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kuberung/kuberung/hosts"
)

// noise is data of every byte value, the same for a seed.
func noise(seed uint64, size int) []byte {
	var key [32]byte
	key[0] = byte(seed)
	data := make([]byte, size)
	rand.NewChaCha8(key).Read(data)
	return data
}

func filesArrive(t *testing.T, box labHost, h *hosts.Host) {
	want := noise(3, 100<<10)
	const path = "/etc/lab/secret file"
	for _, mode := range []fs.FileMode{0o600, 0o444, 0o755 | fs.ModeSetuid} {
		if err := h.WriteFile(t.Context(), path, want, mode); err != nil {
			t.Fatal(err)
		}
		octal := fmt.Sprintf("%o", mode.Perm())
		if mode&fs.ModeSetuid != 0 {
			octal = "4" + octal
		}
		if got := box.on(t, `stat -c '%a %u:%g' "$1"`, path); got != octal+" 0:0\n" {
			t.Errorf("written as %q, want %s and root's", got, octal)
		}
	}
	if err := h.WriteFile(t.Context(), path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := h.ReadFile(t.Context(), path)
	same(t, got, want, err)
	if _, err := h.ReadFile(t.Context(), path+"-absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file gave %v", err)
	}
}

func uploadArrives(t *testing.T, box labHost, h *hosts.Host) {
	data := noise(rand.Uint64(), 20<<20)
	data[0] = byte(rand.Int()) // not the file of the user before
	local := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	const remote = "/usr/lib/lab/new folder/program"
	t.Cleanup(func() { box.on(t, `rm -r "${1%/*}"`, remote) })
	var sent int64
	if err := h.Upload(t.Context(), local, remote, 0o755, "", func(n int64) { sent = n }); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	want := hex.EncodeToString(sum[:]) + " 755 0:0 755 0:0\n"
	got := box.on(t, `set -- "$(sha256sum <"$1")" "$1"; echo "${1%% *} $(stat -c '%a %u:%g' "$2") $(stat -c '%a %u:%g' "${2%/*}")"`, remote)
	if got != want {
		t.Errorf("arrived as %q, want %q", got, want)
	}
	if sent != int64(len(data)) {
		t.Errorf("told of %d bytes, want %d", sent, len(data))
	}
	sent = 0
	if err := h.Upload(t.Context(), local, remote, 0o755, "", func(n int64) { sent = n }); err != nil || sent != 0 {
		t.Errorf("an unchanged file: %d bytes sent, %v", sent, err)
	}
	if left := box.on(t, "find /var/lib/kuberung/incoming '/usr/lib/lab/new folder' -type f ! -name program"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
