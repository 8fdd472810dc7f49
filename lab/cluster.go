package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// joined is the file that says, on a host, that kubeadm init or join has succeeded there.
const joined = "/var/lib/lab/joined"

// makeCluster initialises the first control plane, joins the rest and connects their pods.
func (l *lab) makeCluster(ctx context.Context) error {
	planes, workers := l.Shape.with(controlPlane), l.Shape.with(worker)
	if err := l.kubeadm(ctx, planes[0], "init", "init.yaml"); err != nil {
		return err
	}
	if err := l.writeKubeconfig(ctx, planes[0]); err != nil {
		return err
	}
	if err := l.makeSecrets(ctx, planes[0], l.Shape.Nodes()); err != nil {
		return err
	}
	for _, h := range planes[1:] { // one at a time: each changes etcd's membership
		if err := l.kubeadm(ctx, h, "join", "join.yaml"); err != nil {
			return err
		}
	}
	err := each(ctx, workers, func(ctx context.Context, h host) error { return l.kubeadm(ctx, h, "join", "join.yaml") })
	if err != nil {
		return err
	}
	return l.connectPods(ctx)
}

// kubeadm runs `kubeadm init` or `kubeadm join` on h with a configuration from template, once. What a failed run left is
// reset first.
func (l *lab) kubeadm(ctx context.Context, h host, verb, template string) error {
	if h.has(ctx, joined) {
		return nil
	}
	log := l.log(h.Name + "-" + verb)
	if h.has(ctx, "/etc/kubernetes/kubelet.conf") {
		say("%s: resetting what is left of an earlier run", h.Name)
		if err := h.execLogged(ctx, log, 5*time.Minute, nil, "kubeadm", "reset", "--force"); err != nil {
			return err
		}
	}
	config, err := render(template, l.page(h))
	if err != nil {
		return err
	}
	const path = "/run/lab/kubeadm.yaml" // holds the token: in memory only
	if err := h.write(ctx, path, config); err != nil {
		return err
	}
	say("%s: kubeadm %s", h.Name, verb)
	if err := h.execLogged(ctx, log, 10*time.Minute, nil, "kubeadm", verb, "--config", path); err != nil {
		return err
	}
	if _, err := h.exec(ctx, "rm", path); err != nil {
		return err
	}
	return h.write(ctx, joined, nil)
}

// makeSecrets asks first, a control plane, for what the hosts that have not joined need to do so.
func (l *lab) makeSecrets(ctx context.Context, first host, hosts []host) error {
	waiting := false
	for _, h := range hosts {
		waiting = waiting || !h.has(ctx, joined)
	}
	if !waiting {
		return nil
	}
	token, err := first.exec(ctx, "kubeadm", "token", "create", "--ttl", "2h")
	if err != nil {
		return err
	}
	l.token = strings.TrimSpace(token)
	uploaded, err := first.exec(ctx, "kubeadm", "init", "phase", "upload-certs", "--upload-certs")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(uploaded), "\n")
	l.certificateKey = lines[len(lines)-1]
	authority, err := first.exec(ctx, "cat", "/etc/kubernetes/pki/ca.crt")
	if err != nil {
		return err
	}
	l.caCertHash, err = publicKeyHash([]byte(authority))
	return err
}

// publicKeyHash is the pin of a certificate in PEM form as kubeadm's discovery takes it: the hash of its public key.
func publicKeyHash(text []byte) (string, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("the cluster's certificate authority is not in PEM form")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// connectPods gives every node the network configuration of its own pods and the routes to those of the others.
func (l *lab) connectPods(ctx context.Context) error {
	nodes := l.Shape.Nodes()
	var ranges map[string]string
	err := await(ctx, "pod addresses of every node", time.Minute, func(ctx context.Context) (err error) {
		if ranges, err = l.podRanges(ctx); err != nil {
			return err
		}
		for _, h := range nodes {
			if ranges[h.NodeName] == "" {
				return fmt.Errorf("%s has no spec.podCIDR", h.NodeName)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range nodes {
		p := l.page(h)
		p.PodCIDR = ranges[h.NodeName]
		config, err := render("podnet.conflist", p)
		if err != nil {
			return err
		}
		err = h.put(ctx,
			entry{Path: "etc/lab/routes", Mode: 0o644, Data: routes(h, nodes, ranges)},
			entry{Path: "etc/cni/net.d/10-lab.conflist", Mode: 0o644, Data: config})
		if err != nil {
			return err
		}
		if _, err := h.exec(ctx, "systemctl", "restart", "lab-network"); err != nil {
			return err
		}
	}
	return nil
}

// routes are the lines of h's /etc/lab/routes.
func routes(h host, nodes []host, ranges map[string]string) []byte {
	var lines bytes.Buffer
	for _, other := range nodes {
		if other.Name != h.Name {
			fmt.Fprintf(&lines, "%s via %s\n", ranges[other.NodeName], other.Address)
		}
	}
	return lines.Bytes()
}
