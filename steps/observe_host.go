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
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

//go:embed observe_host.sh
var observeScript string

// queryOf is what is asked of a host in one round trip.
func queryOf(role string, versions []string) hosts.Query {
	return hosts.Query{
		Disks: []string{"/var/lib", "/etc/kubernetes", "/usr/bin", "/usr/local/bin", "/opt/bin", "/var/lib/containerd"},
		Programs: []hosts.ProgramQuery{
			{Name: "kubeadm", Version: []string{"version", "-o", "short"}},
			{Name: "kubelet", Version: []string{"--version"}, Unit: "kubelet.service"},
			{Name: "kubectl", Version: []string{"version", "--client"}},
			{Name: "crictl", Version: []string{"--version"}},
			{Name: "containerd", Version: []string{"--version"}, Unit: "containerd.service"},
		},
		Units:        []string{"kubelet.service", "containerd.service"},
		Certificates: certificateQueries(),
		Records:      unitsOf(role, versions),
		More:         observeScript, Args: []string{stageDir},
	}
}

// observeHost reads one host. What could not be read is Err of the result.
func (s *Session) observeHost(ctx context.Context, c config.Host) Host {
	facts, err := s.host(c.Name).Facts(ctx, queryOf(c.Role, s.releases()))
	if err != nil {
		return Host{Name: c.Name, Role: c.Role, Address: c.Address, Err: err}
	}
	h := understand(facts)
	h.Name, h.Role, h.Address = c.Name, c.Role, c.Address
	return h
}

// understand turns what a host told into what checks and plans are made of.
func understand(f hosts.Facts) Host {
	h := Host{
		System:    f,
		Arch:      f.Arch,
		CA:        strings.TrimSpace(f.More["ca"]),
		Missing:   strings.Fields(f.More["missing"]),
		Binaries:  binariesOf(f),
		CRI:       "unix:///run/containerd/containerd.sock",
		Instance:  strings.TrimSpace(f.More["instance"]) != "",
		Staged:    set(strings.Fields(f.More["staged"])),
		Units:     f.Running,
		Images:    set(strings.Fields(f.More["images"])),
		Free:      freeOf(f),
		Kubeadm:   map[string]hosts.Record{},
		Manifests: map[string]Manifest{},
	}
	if endpoints := strings.Fields(f.More["cri"]); len(endpoints) > 0 {
		h.CRI = strings.Trim(endpoints[0], `"'`)
	}
	h.Err = errors.Join(h.readNode(f), h.readManifests(f), h.readRecords(f))
	return h
}

// readNode takes the name of the node: from the certificate, or where that is gone, from whom the kubelet's
// kubeconfig is made for.
func (h *Host) readNode(f hosts.Facts) error {
	var err error
	if h.NodeName, err = nodeNameIn(f.More["certificate"]); err == nil {
		return nil
	}
	name, found := strings.CutPrefix(strings.TrimSpace(f.More["user"]), nodeUser)
	if !found || name == "" {
		return err
	}
	h.NodeName = name
	return nil
}

func (h *Host) readManifests(f hosts.Facts) error {
	var errs []error
	for _, component := range controlPlaneComponents {
		text, found := f.More["manifest "+component]
		if !found {
			continue
		}
		m, err := parseManifest(component, text)
		if err != nil {
			errs = append(errs, fmt.Errorf("/etc/kubernetes/manifests/%s.yaml: %w", component, err))
		}
		h.Manifests[component] = m
	}
	return errors.Join(errs...)
}

// readRecords takes what became of runs of kubeadm. Without systemd there can be none; that is a finding of its own.
func (h *Host) readRecords(f hosts.Facts) error {
	if noSystemd(f) != "" {
		return nil
	}
	for _, unit := range sorted(f.Records) {
		if err := f.Records[unit].Err; err != nil {
			return fmt.Errorf("read the record of unit %s: %w", unit, err)
		}
		h.Kubeadm[unit] = f.Records[unit].Record
	}
	if why := f.Unknown["Running"]; why != "" {
		return errors.New("which runs of kubeadm are at work could not be told: " + why)
	}
	return nil
}

// noSystemd says why a host cannot run work that outlives a connection; "" if it can.
func noSystemd(f hosts.Facts) string {
	switch {
	case f.Init.Name == "":
		return "which init runs it could not be told"
	case f.Init.Name != "systemd":
		return "systemd does not run it, " + f.Init.Name + " does"
	case !f.Init.SystemdRun:
		return "has no systemd-run"
	}
	return ""
}

func binariesOf(f hosts.Facts) map[string]Binary {
	found := map[string]Binary{}
	for _, name := range binaries {
		if p := f.Programs[name]; p.Real != "" {
			found[name] = Binary{Path: p.Real, Version: versionIn(p.Says), Owner: p.Package, Doubt: p.Doubt}
		}
	}
	return found
}

func freeOf(f hosts.Facts) []Disk {
	var disks []Disk
	for _, dir := range sorted(f.Disks) {
		if d := f.Disks[dir]; !d.Absent && d.Err == "" {
			disks = append(disks, Disk{Path: dir, Mount: d.Mount, Free: d.Free})
		}
	}
	return disks
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
