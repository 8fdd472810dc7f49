package steps

import (
	"fmt"
	"strings"
	"time"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// certificateFile is a file whose certificates have to be valid.
type certificateFile struct {
	path  string
	renew string // what `kubeadm certs renew` calls it; empty: kubeadm does not renew it
}

const pki = "/etc/kubernetes/pki/"

// certificateFiles are those that kubeadm and the kubelet keep. The kubelet's own serving certificate in kubelet.crt is
// not among them: it is made once, expires after a year, and nothing looks at that.
// https://kubernetes.io/docs/setup/best-practices/certificates/
var certificateFiles = []certificateFile{
	{pki + "ca.crt", ""},
	{pki + "front-proxy-ca.crt", ""},
	{etcdPKI + "ca.crt", ""},
	{pki + "apiserver.crt", "apiserver"},
	{pki + "apiserver-kubelet-client.crt", "apiserver-kubelet-client"},
	{pki + "apiserver-etcd-client.crt", "apiserver-etcd-client"},
	{pki + "front-proxy-client.crt", "front-proxy-client"},
	{etcdPKI + "server.crt", "etcd-server"},
	{etcdPKI + "peer.crt", "etcd-peer"},
	{etcdPKI + "healthcheck-client.crt", "etcd-healthcheck-client"},
	{adminConf, "admin.conf"},
	{"/etc/kubernetes/super-admin.conf", "super-admin.conf"},
	{"/etc/kubernetes/controller-manager.conf", "controller-manager.conf"},
	{"/etc/kubernetes/scheduler.conf", "scheduler.conf"},
	{kubeletConf, ""},
	{kubeletClient, ""},
	{"/var/lib/kubelet/pki/kubelet-server-current.pem", ""},
}

const (
	kubeletConf   = "/etc/kubernetes/kubelet.conf"
	kubeletClient = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

func certificateQueries() []hosts.CertificateQuery {
	var all []hosts.CertificateQuery
	for _, c := range certificateFiles {
		q := hosts.CertificateQuery{Path: c.path}
		if strings.HasSuffix(c.path, ".conf") {
			q.Key = "client-certificate-data" // a kubeconfig may also name a file, which is in the list itself
		}
		all = append(all, q)
	}
	return all
}

// certificateWarns is how long before its end a certificate is worth a word: an upgrade that has to be continued next
// week must still find the doors open.
const certificateWarns = 7 * 24 * time.Hour

// certificatesValid reads the files, not the API, which an expired certificate may have closed. A kubelet goes on with
// an expired one until it is restarted, which is what an upgrade does.
func certificatesValid(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		seen := f.Hosts[h.Name].System
		for _, file := range certificateFiles {
			held := seen.Certificates[file.path]
			if held.Err != "" {
				found = append(found, block(place(h), file.path+" could not be read: "+held.Err, "see what stands in that file"))
			}
			until := validUntil(held.Certificates)
			left := until.Sub(seen.At)
			switch {
			case until.IsZero():
			case left <= 0 && file.path == kubeletConf && validUntil(seen.Certificates[kubeletClient].Certificates).After(seen.At):
				// An old kubeadm wrote the first certificate into this file; the kubelet has gone over to those it rotates.
				found = append(found, warn(place(h), fmt.Sprintf("the certificate in %s expired on %s; the kubelet uses that in %s", file.path, day(until), kubeletClient),
					"let client-certificate and client-key in it name "+kubeletClient+" instead"))
			case left <= 0:
				found = append(found, block(place(h), fmt.Sprintf("the certificate in %s expired on %s: renew it first", file.path, day(until)), file.fix(f, h.Name)))
			case left < certificateWarns:
				found = append(found, warn(place(h), fmt.Sprintf("the certificate in %s expires on %s", file.path, day(until)), file.fix(f, h.Name)))
			}
		}
	}
	return found
}

// validUntil is when the last of several CAs ends, for of those one is enough; else when the first certificate ends,
// for what follows it is its chain.
func validUntil(all []hosts.Certificate) time.Time {
	var until time.Time
	for i, c := range all {
		if i == 0 || all[0].CA && c.NotAfter.After(until) {
			until = c.NotAfter
		}
	}
	return until
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// fix says how to renew what is in the file.
// https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-certs/
// https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/troubleshooting-kubeadm/#kubelet-client-cert
func (c certificateFile) fix(f Facts, host string) string {
	switch {
	case c.renew != "":
		return "on this host: kubeadm certs renew " + c.renew + ", then move the manifests of the control plane out of /etc/kubernetes/manifests and back, so that its static pods start anew"
	case c.path == kubeletConf, c.path == kubeletClient:
		return fmt.Sprintf("on a control plane: kubeadm kubeconfig user --org system:nodes --client-name %s%s > kubelet.conf; put that on this host as %s, remove %s, and restart the kubelet",
			nodeUser, f.NodeName(host), kubeletConf, "/var/lib/kubelet/pki/kubelet-client*")
	case strings.HasSuffix(c.path, "kubelet-server-current.pem"):
		return "approve the kubelet's request for a new one: kubectl get csr, then kubectl certificate approve"
	}
	return "kubeadm renews no CA: replace it by hand, as https://kubernetes.io/docs/tasks/tls/manual-rotation-of-ca-certificates/ says"
}
