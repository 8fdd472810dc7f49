package steps

import (
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

//go:embed observe_host.sh
var observeScript string

// observeHost reads one host. What could not be read is Err of the result.
func (s *Session) observeHost(ctx context.Context, c config.Host) Host {
	out, err := s.host(c.Name).Script(ctx, hosts.Script{
		Text: observeScript, Args: []string{stageDir}, Sudo: true, Timeout: time.Minute,
	})
	if err != nil {
		return Host{Name: c.Name, Role: c.Role, Err: err}
	}
	h, err := parseHost(string(out))
	h.Name, h.Role = c.Name, c.Role
	if err != nil {
		h.Err = err
		return h
	}
	h.Kubeadm = map[string]hosts.Record{}
	for _, unit := range kubeadmUnits(c.Role, s.Cluster.Target) {
		record, err := s.host(c.Name).UnitRecord(ctx, unit)
		if err != nil {
			h.Err = fmt.Errorf("read the record of unit %s: %w", unit, err)
			return h
		}
		h.Kubeadm[unit] = record
	}
	return h
}

// parseHost understands the output of observe_host.sh.
func parseHost(out string) (Host, error) {
	sections := map[string]string{}
	for _, part := range strings.Split("\n"+out, "\n#@ ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		sections[name] = text
	}
	if _, complete := sections["end"]; !complete {
		return Host{}, fmt.Errorf("the host's answer ends early: %q", oneLine(out))
	}
	h := Host{
		Arch:      goArch(strings.TrimSpace(sections["arch"])),
		CA:        strings.TrimSpace(sections["ca"]),
		Missing:   strings.Fields(sections["missing"]),
		Binaries:  parseBinaries(sections["binaries"]),
		CRI:       "unix:///run/containerd/containerd.sock",
		Staged:    set(strings.Fields(sections["staged"])),
		Units:     parseUnits(sections["units"]),
		Images:    set(strings.Fields(sections["images"])),
		Free:      parseDisks(sections["disk"]),
		Manifests: map[string]Manifest{},
	}
	if endpoints := strings.Fields(sections["cri"]); len(endpoints) > 0 {
		h.CRI = strings.Trim(endpoints[0], `"'`)
	}
	var errs []error
	var err error
	if h.NodeName, err = nodeNameIn(sections["certificate"]); err != nil {
		errs = append(errs, err)
	}
	for _, component := range controlPlaneComponents {
		text, found := sections["manifest "+component]
		if !found {
			continue
		}
		if h.Manifests[component], err = parseManifest(component, text); err != nil {
			errs = append(errs, fmt.Errorf("/etc/kubernetes/manifests/%s.yaml: %w", component, err))
		}
	}
	return h, errors.Join(errs...)
}

// controlPlaneComponents are the static pods that kubeadm keeps on a control plane with its own etcd.
var controlPlaneComponents = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

func set(items []string) map[string]bool {
	s := make(map[string]bool, len(items))
	for _, i := range items {
		s[i] = true
	}
	return s
}

// goArch turns what uname -m says into Go's name for it.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

func parseBinaries(text string) map[string]Binary {
	found := map[string]Binary{}
	for _, line := range strings.Split(text, "\n") {
		if cols := strings.Split(line, "\t"); len(cols) == 4 {
			found[cols[0]] = Binary{Path: cols[1], Version: versionIn(cols[2]), Owner: strings.TrimSpace(cols[3])}
		}
	}
	return found
}

// parseUnits gives our names of systemd units: "kuberung-kubeadm-apply-v1.36.3.service".
func parseUnits(text string) []string {
	var units []string
	for _, unit := range strings.Fields(text) {
		units = append(units, strings.TrimSuffix(strings.TrimPrefix(unit, "kuberung-"), ".service"))
	}
	return units
}

func parseDisks(text string) []Disk {
	var disks []Disk
	for _, line := range strings.Split(text, "\n") {
		cols := strings.Split(line, "\t")
		if len(cols) != 3 {
			continue
		}
		if free, err := strconv.ParseInt(cols[2], 10, 64); err == nil {
			disks = append(disks, Disk{Path: cols[0], Mount: cols[1], Free: free << 10})
		}
	}
	return disks
}

// nodeUser is how a kubelet signs in: "system:node:" and the name of its Node.
// https://kubernetes.io/docs/reference/access-authn-authz/node/
const nodeUser = "system:node:"

// nodeNameIn reads the name of the Node from the kubelet's client certificate, the one place that
// cannot disagree with the cluster: hostname may be longer, shorter or in capitals, and
// --hostname-override may say something else altogether.
func nodeNameIn(certificates string) (string, error) {
	block, _ := pem.Decode([]byte(certificates))
	if block == nil {
		return "", errors.New("no kubelet client certificate on this host: it has not joined a cluster")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("kubelet client certificate: %w", err)
	}
	name, ok := strings.CutPrefix(cert.Subject.CommonName, nodeUser)
	if !ok || name == "" {
		return "", fmt.Errorf("kubelet client certificate is of %q, not of a node", cert.Subject.CommonName)
	}
	return name, nil
}

func parseManifest(component, text string) (Manifest, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
		return Manifest{}, err
	}
	for _, c := range pod.Spec.Containers {
		if c.Name != component {
			continue
		}
		m := Manifest{Image: c.Image}
		args := append(append([]string(nil), c.Command...), c.Args...)
		switch component {
		case "kube-apiserver":
			m.Advertise = net.JoinHostPort(flag(args, "advertise-address", "127.0.0.1"), flag(args, "secure-port", "6443"))
		case "etcd":
			m.Client = clientAddress(flag(args, "advertise-client-urls", ""))
		case "kube-controller-manager":
			m.Health = healthAddress(args, "10257")
			m.NoLease = flag(args, "leader-elect", "true") == "false"
		case "kube-scheduler":
			m.Health = healthAddress(args, "10259")
			m.NoLease = flag(args, "leader-elect", "true") == "false"
		}
		return m, nil
	}
	return Manifest{}, fmt.Errorf("no container named %s", component)
}

func flag(args []string, name, otherwise string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
		if arg == "--"+name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return otherwise
}

// healthAddress is where a component serves /healthz, as seen from its host.
// https://kubernetes.io/docs/reference/networking/ports-and-protocols/
func healthAddress(args []string, port string) string {
	address := flag(args, "bind-address", "")
	if ip := net.ParseIP(address); ip == nil || ip.IsUnspecified() {
		address = "127.0.0.1"
	}
	return net.JoinHostPort(address, flag(args, "secure-port", port))
}

// clientAddress gives host:port of the first of several URLs.
func clientAddress(urls string) string {
	first, _, _ := strings.Cut(urls, ",")
	u, err := url.Parse(first)
	if err != nil {
		return ""
	}
	return u.Host
}
