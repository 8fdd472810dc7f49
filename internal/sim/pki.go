package sim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority is the CA of a cluster, and of its etcd. Its certificates hold in every time there is: that of a bubble
// begins in the year 2000.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

var (
	longAgo = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	someDay = time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
)

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: longAgo, NotAfter: someDay,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if cert, err = x509.ParseCertificate(raw); err != nil {
		return nil, err
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}, nil
}

// issued is a certificate with its key.
type issued struct{ cert, key []byte }

// issue makes a certificate that may be both ends' of TLS.
func (a *authority) issue(subject pkix.Name, addresses ...string) (issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return issued{}, err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject, NotBefore: longAgo, NotAfter: someDay,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: []string{"kubernetes", "localhost"},
	}
	for _, address := range addresses {
		cert.IPAddresses = append(cert.IPAddresses, net.ParseIP(address))
	}
	raw, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return issued{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return issued{}, err
	}
	return issued{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// serving is the TLS of a server with this certificate, which asks clients for one of the cluster's.
func (a *authority) serving(i issued) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(i.cert, i.key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
		CurvePreferences: []tls.CurveID{tls.X25519}, // the others cost more, and nobody listens
	}, nil
}

// kubeconfig is a file as kubeadm writes it for a user.
func (a *authority) kubeconfig(server, user string, i issued) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: %s
    server: https://%s
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: %s
  name: default
current-context: default
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
`, encode(a.pem), server, user, user, encode(i.cert), encode(i.key))
}
