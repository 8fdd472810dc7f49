package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdClient dials the members of all control planes. The client certificate is read from the first of them and is kept
// in memory.
func (b *bed) etcdClient(ctx context.Context) (*clientv3.Client, error) {
	var endpoints []string
	for _, h := range b.controlPlanes() {
		endpoints = append(endpoints, "https://"+h.Address+":2379")
	}
	var pem [3]string
	for i, name := range []string{"healthcheck-client.crt", "healthcheck-client.key", "ca.crt"} {
		var err error
		if pem[i], err = b.sh(ctx, b.controlPlanes()[0], "cat /etc/kubernetes/pki/etcd/"+name); err != nil {
			return nil, err
		}
	}
	certificate, err := tls.X509KeyPair([]byte(pem[0]), []byte(pem[1]))
	if err != nil {
		return nil, fmt.Errorf("etcd client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(pem[2])) {
		return nil, errors.New("etcd's ca.crt holds no certificate")
	}
	return clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: 5 * time.Second,
		TLS:         &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots},
		Logger:      zap.NewNop(),
	})
}

// etcdMoved checks that all members are there, vote, answer, agree, and run the version that kubeadm wants.
func (b *bed) etcdMoved(ctx context.Context, w wanted) error {
	client, err := b.etcdClient(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	if len(list.Members) != w.members {
		return fmt.Errorf("%d members, want %d", len(list.Members), w.members)
	}
	var first *clientv3.StatusResponse
	for _, m := range list.Members {
		if m.IsLearner || len(m.ClientURLs) == 0 {
			return fmt.Errorf("member %s is a learner or never started: %v", m.Name, m)
		}
		status, err := client.Status(ctx, m.ClientURLs[0])
		if err != nil {
			return fmt.Errorf("member %s does not answer: %w", m.Name, err)
		}
		if status.Version != w.etcd || len(status.Errors) > 0 {
			return fmt.Errorf("member %s runs version %s with errors %v, want %s and none", m.Name, status.Version, status.Errors, w.etcd)
		}
		if first == nil {
			first = status
		}
		if status.Leader != first.Leader || status.Leader == 0 {
			return fmt.Errorf("member %s follows leader %x, another follows %x", m.Name, status.Leader, first.Leader)
		}
		// The first member was asked before the others: whoever is level with it has applied at least as much.
		if status.RaftAppliedIndex < first.RaftAppliedIndex {
			return fmt.Errorf("member %s has applied index %d, another was at %d before", m.Name, status.RaftAppliedIndex, first.RaftAppliedIndex)
		}
	}
	alarms, err := client.AlarmList(ctx)
	if err == nil && len(alarms.Alarms) > 0 {
		err = fmt.Errorf("alarms are raised: %v", alarms.Alarms)
	}
	return err
}

// memberCount asks etcd how many members it has.
func (b *bed) memberCount(ctx context.Context) (int, error) {
	client, err := b.etcdClient(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return 0, err
	}
	return len(list.Members), nil
}

// snapshotHolds checks that a snapshot file is private, whole, can be restored, and has content in the object stored as
// key. It returns the file's size in bytes.
func (b *bed) snapshotHolds(ctx context.Context, path, key, content string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		return 0, fmt.Errorf("%s has mode %o, want 600", path, mode)
	}
	if err := digestTrailer(path); err != nil {
		return 0, err
	}
	restored := filepath.Join(b.scratch, "restored-"+filepath.Base(path))
	if err := os.RemoveAll(restored); err != nil {
		return 0, err
	}
	for _, argv := range [][]string{
		{b.etcdutl, "snapshot", "status", path},
		{b.etcdutl, "snapshot", "restore", path, "--data-dir", restored},
	} {
		if _, err := (command{Argv: argv, Log: filepath.Join(b.dir, "etcdutl.log")}).run(ctx); err != nil {
			return 0, err
		}
	}
	return info.Size(), storeHolds(filepath.Join(restored, "member", "snap", "db"), key, content)
}

// digestTrailer checks the SHA-256 that etcd appends to a snapshot: 32 bytes after a database of whole 512-byte blocks.
func digestTrailer(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data)%512 != sha256.Size {
		return fmt.Errorf("%s has %d bytes and so no digest at its end", path, len(data))
	}
	body, trailer := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], trailer) {
		return fmt.Errorf("%s has digest %x and ends with %x", path, sum, trailer)
	}
	return nil
}

// storeHolds looks into an etcd database for a value of key that contains content. Values are kept by revision, so every
// one is looked at; both texts stand in the stored message as they are.
func storeHolds(path, key, content string) error {
	store, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer store.Close()
	found := false
	err = store.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(_, value []byte) error {
			found = found || bytes.Contains(value, []byte(key)) && bytes.Contains(value, []byte(content))
			return nil
		})
	})
	if err == nil && !found {
		err = fmt.Errorf("%s does not hold what was written to %s before", path, key)
	}
	return err
}
