package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestKeyPair(t *testing.T) {
	l := &lab{settings: settings{State: t.TempDir()}}
	if err := l.makeKey(); err != nil {
		t.Fatal(err)
	}
	private, err := os.ReadFile(l.statePath("id_ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(l.statePath("id_ed25519.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(ssh.MarshalAuthorizedKey(signer.PublicKey())); got != string(public) {
		t.Errorf("the public key is %s, want %s", public, got)
	}
	if info, err := os.Stat(l.statePath("id_ed25519")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("private key has mode %v, %v", info.Mode(), err)
	}
	if err := l.makeKey(); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(l.statePath("id_ed25519")); err != nil || string(again) != string(private) {
		t.Errorf("a second call made another key, %v", err)
	}
}

func TestCopyFilesKeepsModes(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(filepath.Join(from, "kubeconfig"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFiles(from, to, []string{"kubeconfig"}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(to, "kubeconfig"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("copy has mode %v, %v, want 0600", info.Mode(), err)
	}
	if err := copyFiles(from, to, []string{"missing"}); err == nil {
		t.Error("a file that is not there was copied")
	}
}

func TestPublicKeyHash(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	got, err := publicKeyHash(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	if want := "sha256:" + hex.EncodeToString(sum[:]); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := publicKeyHash([]byte("nothing of the kind")); err == nil {
		t.Error("text that is no certificate has a hash")
	}
}
