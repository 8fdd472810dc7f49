package etcdbackup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// testTLS makes one certificate that is its own authority, for a member that asks for client certificates as
// kubeadm's do, and for the client.
func testTLS(t *testing.T) (server func(*embed.Config), client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, data := range map[string][]byte{certFile: cert, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	server = func(c *embed.Config) {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile, c.ClientTLSInfo.TrustedCAFile = certFile, keyFile, certFile
		c.ClientTLSInfo.ClientCertAuth = true
		c.ListenClientUrls[0].Scheme, c.AdvertiseClientUrls[0].Scheme = "https", "https"
	}
	return server, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

// insecure trusts nobody's certificate.
func insecure() *tls.Config { return &tls.Config{RootCAs: x509.NewCertPool()} }
