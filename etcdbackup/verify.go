package etcdbackup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// Verify proves a snapshot file without a cluster: its size, the SHA-256 that etcd put at its end, every page of the
// database, and that it holds keys. If there is a ".json" file beside it the digests must agree. It changes nothing.
func Verify(ctx context.Context, path string) (Snapshot, error) {
	s, err := verify(ctx, path)
	if err != nil {
		return Snapshot{}, fmt.Errorf("verify snapshot %s: %w", path, err)
	}
	return s, nil
}

func verify(ctx context.Context, path string) (Snapshot, error) {
	s, err := inspect(ctx, path)
	if err != nil {
		return Snapshot{}, err
	}
	saved, ok, err := readSidecar(path)
	if err != nil || !ok {
		return s, err
	}
	if saved.SHA256 != s.SHA256 {
		return Snapshot{}, fmt.Errorf("its sha256 is %s, but %s was noted when it was saved", s.SHA256, saved.SHA256)
	}
	s.Endpoint, s.MemberID, s.ClusterID = saved.Endpoint, saved.MemberID, saved.ClusterID
	s.MemberVersion, s.Members, s.Taken = saved.MemberVersion, saved.Members, saved.Taken
	return s, nil
}

// inspect reads the file alone. The digest comes first: a damaged database is not opened.
func inspect(ctx context.Context, path string) (Snapshot, error) {
	s := Snapshot{Path: path}
	if err := s.digest(ctx); err != nil {
		return Snapshot{}, err
	}
	content, err := readDatabase(ctx, path)
	if err != nil {
		return Snapshot{}, err
	}
	if content.keys == 0 {
		return Snapshot{}, errors.New("it holds no keys")
	}
	s.Revision, s.TotalKeys, s.StorageVersion = content.revision, content.keys, content.version
	return s, nil
}

// digest reads the file once and compares its end with the SHA-256 of the rest. etcd sends whole 512-byte sectors and
// then the 32 bytes, so any other size is a stream that was cut.
func (s *Snapshot) digest(ctx context.Context) error {
	file, err := os.Open(s.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	s.Size = info.Size()
	if s.Size <= sha256.Size || s.Size%512 != sha256.Size {
		return fmt.Errorf("its size of %d bytes has no room for a digest at the end: it is truncated or no snapshot", s.Size)
	}
	content, whole := sha256.New(), sha256.New()
	input := io.TeeReader(reader{ctx, file}, whole)
	if _, err := io.CopyN(content, input, s.Size-sha256.Size); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	trailer := make([]byte, sha256.Size)
	if _, err := io.ReadFull(input, trailer); err != nil {
		return fmt.Errorf("read digest: %w", err)
	}
	if got := sum(content); got != hex.EncodeToString(trailer) {
		return fmt.Errorf("its content has sha256 %s, but etcd sent %x: it is damaged", got, trailer)
	}
	s.SHA256 = sum(whole)
	return nil
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
