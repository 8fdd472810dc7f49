package etcdbackup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
)

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestSaveThenRestore(t *testing.T) {
	serverTLS, clientTLS := testTLS(t)
	m := startCluster(t, 1, serverTLS)[0]
	through := &tunnel{}
	access := Access{TLS: clientTLS, Dial: through.dial}
	fill(t, client(t, access, m.Endpoint), 100)

	dir := t.TempDir()
	path := filepath.Join(dir, "before.db")
	saved, err := Save(t.Context(), access, m.Endpoint, path)
	if err != nil {
		t.Fatal(err)
	}
	if saved.TotalKeys != 100 || saved.Revision < 101 || saved.ClusterID != uint64(m.Server.Cluster().ID()) || saved.MemberVersion == "" || saved.Taken.IsZero() || len(saved.Members) != 1 {
		t.Errorf("got %+v", saved)
	}
	if diff := cmp.Diff([]string{"before.db", "before.db.json"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, name := range names(t, dir) {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v; want 0600, it holds all secrets", name, info.Mode(), err)
		}
	}
	if diff := cmp.Diff([]string{m.Address}, through.to()); diff != "" {
		t.Errorf("dialled through the tunnel (-want +got):\n%s", diff)
	}
	verified, err := Verify(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, verified); diff != "" {
		t.Errorf("Verify (-saved +verified):\n%s", diff)
	}
	m.stop()
	checkRestored(t, path, 100)
}

// checkRestored starts a new cluster from the snapshot and looks for what fill had written.
func checkRestored(t *testing.T, path string, keys int64) {
	t.Helper()
	m := newMember(t, "restored")
	err := snapshot.NewV3(quiet()).Restore(snapshot.RestoreConfig{SnapshotPath: path, OutputDataDir: m.config.Dir, Name: m.config.Name,
		PeerURLs: []string{m.config.AdvertisePeerUrls[0].String()}, InitialCluster: m.config.InitialCluster, InitialClusterToken: "restored"})
	if err != nil {
		t.Fatal(err)
	}
	m.ready(t)
	got, err := client(t, Access{}, m.Endpoint).Get(t.Context(), "/registry/0042")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != strings.Repeat("0042", 256) {
		t.Errorf("restored: got %v, error %v", got, err)
	}
}

// A deletion that was compacted away leaves no key at the latest revision; the snapshot is complete all the same.
func TestSaveAfterCompactedDeletion(t *testing.T) {
	m := startCluster(t, 1)[0]
	c := client(t, Access{}, m.Endpoint)
	fill(t, c, 2)
	deleted, err := c.Delete(t.Context(), "/registry/0001")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), deleted.Header.Revision); err != nil {
		t.Fatal(err)
	}
	saved, err := Save(t.Context(), Access{}, m.Endpoint, filepath.Join(t.TempDir(), "s.db"))
	if err != nil || saved.Revision != deleted.Header.Revision || saved.TotalKeys != 1 {
		t.Errorf("got %+v, error %v; want revision %d", saved, err, deleted.Header.Revision)
	}
}

func TestSaveFails(t *testing.T) {
	m := startCluster(t, 1)[0]
	fill(t, client(t, Access{}, m.Endpoint), 1000)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	t.Run("refuses to overwrite", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "s.db")
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Save(t.Context(), Access{}, m.Endpoint, path)
		if content, _ := os.ReadFile(path); !errors.Is(err, fs.ErrExist) || string(content) != "precious" {
			t.Errorf("error %v, content %q", err, content)
		}
		if diff := cmp.Diff([]string{"s.db"}, names(t, dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
	for name, test := range map[string]struct {
		ctx      context.Context
		access   Access
		endpoint Endpoint
		want     []string
	}{
		"when the stream breaks":     {t.Context(), Access{Dial: (&tunnel{limit: 500 << 10}).dial}, m.Endpoint, []string{"stream broke after "}},
		"when cancelled":             {cancelled, Access{}, m.Endpoint, []string{"canceled"}},
		"when nobody answers":        {t.Context(), Access{}, Endpoint{"gone", localHost(t)}, []string{"gone", "refused"}},
		"when TLS is spoken to none": {t.Context(), Access{TLS: insecure()}, m.Endpoint, []string{"authentication handshake failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "s.db")
			_, err := Save(test.ctx, test.access, test.endpoint, path)
			if err == nil {
				t.Fatal("saved")
			}
			for _, part := range append(test.want, path, test.endpoint.Address) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("message %q does not name %q", err, part)
				}
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	t.Run("goes on after a killed one", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "s.db")
		if err := os.WriteFile(path+".part", []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path+".part.restore", "member"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Save(t.Context(), Access{}, m.Endpoint, path); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"s.db", "s.db.json"}, names(t, dir), cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
}

func localHost(t *testing.T) string { u := localURL(t); return u.Host }
