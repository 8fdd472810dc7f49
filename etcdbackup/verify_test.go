package etcdbackup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// seal puts the digest at the end that etcd would send.
func seal(content []byte) []byte {
	digest := sha256.Sum256(content)
	return append(bytes.Clone(content), digest[:]...)
}

// database returns a snapshot without its digest.
func database(snapshot []byte) []byte { return snapshot[:len(snapshot)-sha256.Size] }

// flip inverts n bytes.
func flip(data []byte, at, n int) []byte {
	data = bytes.Clone(data)
	for i := at; i < at+n; i++ {
		data[i] ^= 0xff
	}
	return data
}

// write puts data into a file of its own.
func write(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// saved takes one snapshot with keys in it and returns the file's content.
func saved(t *testing.T) []byte {
	t.Helper()
	m := startCluster(t, 1)[0]
	fill(t, client(t, Access{}, m.Endpoint), 200)
	path := filepath.Join(t.TempDir(), "s.db")
	if _, err := Save(t.Context(), Access{}, m.Endpoint, path); err != nil {
		t.Fatal(err)
	}
	m.stop()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// without returns a database in which a bucket was emptied.
func without(t *testing.T, data []byte, bucket string) []byte {
	t.Helper()
	path := write(t, data)
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket([]byte(bucket)); err != nil {
			return err
		}
		_, err := tx.CreateBucket([]byte(bucket))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestVerify(t *testing.T) {
	good := saved(t)
	half := len(good) / 2 / 512 * 512
	const page = 4096
	for name, test := range map[string]struct {
		data []byte
		want string // part of the error, "" for none
	}{
		"complete":                         {good, ""},
		"empty":                            {nil, "truncated or no snapshot"},
		"one byte short":                   {good[:len(good)-1], "truncated or no snapshot"},
		"without its digest":               {database(good), "truncated or no snapshot"},
		"only a digest":                    {good[len(good)-sha256.Size:], "truncated or no snapshot"},
		"cut at a sector":                  {good[:half], "truncated or no snapshot"},
		"cut where a digest would fit":     {good[:half+sha256.Size], "it is damaged"},
		"512 bytes flipped in the middle":  {flip(good, half, 512), "it is damaged"},
		"one bit":                          {append([]byte{good[0] ^ 1}, good[1:]...), "it is damaged"},
		"digest flipped":                   {flip(good, len(good)-1, 1), "it is damaged"},
		"longer":                           {append(bytes.Clone(good), make([]byte, 512)...), "it is damaged"},
		"something else":                   {bytes.Repeat([]byte{'x'}, 4096+sha256.Size), "it is damaged"},
		"something else with a digest":     {seal(bytes.Repeat([]byte{'x'}, 64*page)), "its database is damaged"},
		"damaged pages with a good digest": {seal(flip(database(good), 2*page, 12*page)), "its database is damaged"},
		"damaged meta with a good digest":  {seal(flip(database(good), 0, 2*page)), "its database is damaged"},
		"no keys":                          {seal(without(t, database(good), "key")), "it holds no keys"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, test.data)
			s, err := Verify(t.Context(), path)
			if test.want == "" {
				if err != nil || s.TotalKeys != 200 || s.Revision != 201 || s.Size != int64(len(test.data)) {
					t.Errorf("got %+v, error %v", s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) || s.Size != 0 {
				t.Errorf("got %+v, error %v; want one with %q and the path", s, err, test.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		if _, err := Verify(t.Context(), filepath.Join(t.TempDir(), "s.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Verify(ctx, write(t, good)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	for name, test := range map[string]struct{ sidecar, want string }{
		"exchanged after it was saved": {`{"sha256":"0f0f"}`, "0f0f was noted when it was saved"},
		"with a broken description":    {`{"sha256`, "s.db.json"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, good)
			if err := os.WriteFile(sidecar(path), []byte(test.sidecar), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(t.Context(), path); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want one with %q", err, test.want)
			}
		})
	}
	t.Run("older than the member was", func(t *testing.T) {
		if _, err := prove(t.Context(), write(t, good), Status{Revision: 202}); err == nil || !strings.Contains(err.Error(), "ends at revision 201, but the member was at 202") {
			t.Errorf("got %v", err)
		}
		if s, err := prove(t.Context(), write(t, good), Status{Revision: 201}); err != nil || s.Revision != 201 {
			t.Errorf("level: got %+v, error %v", s, err)
		}
	})
	t.Run("trial restore leaves nothing", func(t *testing.T) {
		path := write(t, good)
		if err := tryRestore(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if err := tryRestore(t.Context(), write(t, flip(good, half, 512))); err == nil {
			t.Error("restored a damaged file")
		}
		if left := names(t, filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left: %q", left)
		}
	})
}

func TestEnoughRoom(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		size, free uint64
		want       string
	}{
		"just enough": {100 * mib, 328 * mib, ""},
		"too little":  {100 * mib, 327 * mib, "327 MiB free, 328 MiB needed"},
		"no database": {0, 0, "0 MiB free, 128 MiB needed"},
		"a large one": {8 << 30, math.MaxInt64, ""},
	} {
		err := enoughRoom("/backup", test.size, test.free)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "/backup")) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	if err := checkRoom(t.TempDir(), 1<<60); err == nil {
		t.Error("an exabyte fits on this disk")
	}
	if err := checkRoom("/does/not/exist", 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing directory: got %v", err)
	}
}
