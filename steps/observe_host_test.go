package steps

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/hosts"
)

// machine is a root directory and a directory of programs that the script is let loose on.
type machine struct {
	t         *testing.T
	root, bin string
}

// newMachine has nothing but what every system has.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t, t.TempDir(), t.TempDir()}
	m.tools("awk base64 cat cut df find grep head readlink sed uname")
	return m
}

// tools are programs of this machine that the other one has as well.
func (m *machine) tools(names string) {
	m.t.Helper()
	for _, name := range strings.Fields(names) {
		file, err := exec.LookPath(name)
		if err != nil {
			m.t.Fatal(err)
		}
		if err := os.Symlink(file, filepath.Join(m.bin, name)); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) file(name, content string) {
	m.t.Helper()
	name = filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// program puts a stand-in on the search path.
func (m *machine) program(name, script string) {
	m.t.Helper()
	file := filepath.Join(m.bin, name)
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// observe runs the script as hosts.Facts does, with its absolute paths below the root and none of this machine's
// programs, and understands its output.
func (m *machine) observe() (string, Host) {
	m.t.Helper()
	text := "part() { printf '\\n#@ %s\\n' \"$1\"; }\nlimited() { \"$@\"; }\n" + observeScript
	for _, dir := range []string{"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/etcd", "/etc/kubernetes"} {
		text = strings.ReplaceAll(text, dir, m.root+dir)
	}
	cmd := exec.CommandContext(m.t.Context(), "/bin/sh", "-s", m.root+stageDir)
	cmd.Env = []string{"PATH=" + m.bin, "BIN=" + m.bin}
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatal(err)
	}
	f := hosts.Facts{Arch: "amd64", Init: hosts.Init{Name: "systemd", SystemdRun: true}, More: map[string]string{}}
	for _, part := range strings.Split(string(out), "\n#@ ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		f.More[name] = text
	}
	h := understand(f)
	h.System = hosts.Facts{}
	return string(out), h
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// controlPlane is a machine as kubeadm leaves it.
func controlPlane(t *testing.T) *machine {
	m := newMachine(t)
	a := newAuthority(t)
	cert, _ := a.client("system:node:control-plane-a.example.org")
	m.file("/var/lib/kubelet/pki/kubelet-client-current.pem", cert+"-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----\n")
	m.file("/etc/kubernetes/pki/ca.crt", certificatePEM(a.cert))
	m.file("/var/lib/kubelet/instance-config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\ncontainerRuntimeEndpoint: \"unix:///run/other.sock\"\n")
	m.file("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/flags.sock --node-ip=10.0.0.1\"\n")
	m.file("/etc/kubernetes/manifests/kube-apiserver.yaml", read(t, "host/kube-apiserver.yaml"))
	m.file("/etc/kubernetes/manifests/etcd.yaml", read(t, "host/etcd.yaml"))
	m.file(stageDir+"/v1.36.3/kubelet.0123456789abcdef", "")
	m.program("hostname", "echo CONTROL-PLANE-A")
	m.program("crictl", "exit 1")
	m.program("ctr", "echo registry.k8s.io/pause:3.10.1; echo sha256:0123")
	m.program("sha256sum", ":")
	return m
}

func TestObserveScript(t *testing.T) {
	m := controlPlane(t)
	out, h := m.observe()
	if strings.Contains(out, "PRIVATE KEY") || strings.Contains(out, "c2VjcmV0") {
		t.Error("the kubelet's private key is in the output")
	}
	if !strings.HasPrefix(h.CA, "-----BEGIN CERTIFICATE-----") {
		t.Errorf("CA is %q", h.CA)
	}
	h.CA = ""
	want := Host{
		NodeName: "control-plane-a.example.org", // not what hostname says
		Arch:     "amd64",
		Binaries: map[string]Binary{},
		Instance: true,
		CRI:      "unix:///run/other.sock",
		Missing:  []string{},
		Staged:   map[string]bool{m.root + stageDir + "/v1.36.3/kubelet.0123456789abcdef": true},
		Images:   map[string]bool{"registry.k8s.io/pause:3.10.1": true, "sha256:0123": true},
		Kubeadm:  map[string]hosts.Record{},
		Manifests: map[string]Manifest{
			"kube-apiserver": {Image: "registry.k8s.io/kube-apiserver:v1.35.4", Advertise: "10.0.0.1:6444"},
			"etcd":           {Image: "registry.k8s.io/etcd:3.6.6-0", Client: "10.0.0.1:2379"},
		},
	}
	if d := cmp.Diff(want, h); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
}

// An older kubeadm writes the runtime's address into flags; a kubelet without rotation has its certificate in its
// kubeconfig, or in a file that this names; and where no certificate is left, the kubeconfig is still made for somebody.
func TestObserveScriptFallsBack(t *testing.T) {
	m := controlPlane(t)
	for _, name := range []string{"/var/lib/kubelet/instance-config.yaml", kubeletClient} {
		if err := os.Remove(m.root + name); err != nil {
			t.Fatal(err)
		}
	}
	cert, _ := newAuthority(t).client("system:node:b")
	m.file("/etc/kubernetes/elsewhere.pem", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"+cert)
	for what, user := range map[string]string{
		"in it":        "users:\n- user:\n    client-certificate-data: " + base64.StdEncoding.EncodeToString([]byte(cert)) + "\n",
		"named by it":  "users:\n- user:\n    client-certificate: " + m.root + "/etc/kubernetes/elsewhere.pem\n",
		"gone":         "contexts:\n- context:\n    user: system:node:b\n  name: system:node:b@kubernetes\n",
		"gone, quoted": "users:\n- name: \"system:node:b\"\n",
	} {
		m.file(kubeletConf, user)
		if _, h := m.observe(); h.Err != nil || h.NodeName != "b" || h.CRI != "unix:///run/flags.sock" {
			t.Errorf("with a certificate that is %s: error %v, node %q, runtime %q", what, h.Err, h.NodeName, h.CRI)
		}
	}
}

func TestObserveScriptOnAHostThatNeverJoined(t *testing.T) {
	_, h := newMachine(t).observe()
	if want := "no kubelet client certificate on this host: it has not joined a cluster"; h.Err == nil || h.Err.Error() != want {
		t.Errorf("error is %v, want %s", h.Err, want)
	}
	if len(h.Binaries)+len(h.Manifests)+len(h.Staged)+len(h.Images) > 0 {
		t.Errorf("host is %+v", h)
	}
	if got, want := strings.Join(h.Missing, " "), "sha256sum ctr crictl"; got != want {
		t.Errorf("missing are %q, want %q", got, want)
	}
}

// What a host tells of itself becomes what checks and plans are made of; what is absent stays out, and what could not be
// told is an error.
func TestUnderstand(t *testing.T) {
	cert, _ := newAuthority(t).client("system:node:a")
	record := hosts.Record{State: hosts.Exited, Code: 1}
	told := func() hosts.Facts {
		return hosts.Facts{
			Arch: "arm64", Init: hosts.Init{Name: "systemd", SystemdRun: true}, Running: []string{"kubeadm-node-v1.36.4"},
			Programs: map[string]hosts.Program{
				"kubelet": {Path: "/bin/kubelet", Real: "/usr/bin/kubelet", Says: "Kubernetes v1.35.4", Package: "kubelet"},
				"kubectl": {Path: "/k", Real: "/k", Says: "Client Version: v1.35.4\nKustomize Version: v5.7.1"},
				"crictl":  {Path: "/c", Real: "/c", Err: "ended with status 1 when asked for its version"},
				"kubeadm": {Absent: true}, "containerd": {Path: "/d", Real: "/d", Says: "containerd v2.1.0"},
			},
			Disks:   map[string]hosts.Disk{"/usr/bin": {Mount: "/", Free: 7}, "/opt/bin": {Absent: true}, "/var/lib": {Err: "df says no"}},
			Records: map[string]hosts.RecordFact{"kubeadm-node-v1.36.3": {Record: record}},
			More:    map[string]string{"certificate": cert}, Unknown: map[string]string{},
		}
	}
	h := understand(told())
	h.System = hosts.Facts{}
	want := Host{
		NodeName: "a", Arch: "arm64", Units: []string{"kubeadm-node-v1.36.4"}, CRI: "unix:///run/containerd/containerd.sock",
		Binaries: map[string]Binary{"kubelet": {"/usr/bin/kubelet", "v1.35.4", "kubelet", ""}, "kubectl": {"/k", "v1.35.4", "", ""}, "crictl": {"/c", "", "", ""}},
		Free:     []Disk{{"/usr/bin", "/", 7}}, Kubeadm: map[string]hosts.Record{"kubeadm-node-v1.36.3": record},
		Missing: []string{}, Staged: map[string]bool{}, Images: map[string]bool{}, Manifests: map[string]Manifest{},
	}
	if d := cmp.Diff(want, h); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
	for _, tt := range []struct {
		name   string
		change func(*hosts.Facts)
		want   string
	}{
		{"a record", func(f *hosts.Facts) {
			f.Records["kubeadm-node-v1.36.3"] = hosts.RecordFact{Err: errors.New("no answer")}
		},
			"read the record of unit kubeadm-node-v1.36.3: no answer"},
		{"what is at work", func(f *hosts.Facts) { f.Unknown["Running"] = "no answer" },
			"which runs of kubeadm are at work could not be told: no answer"},
		{"both, on a host without systemd", func(f *hosts.Facts) {
			f.Init.Name, f.Unknown["Running"] = "init", "no answer"
			f.Records["kubeadm-node-v1.36.3"] = hosts.RecordFact{Err: hosts.ErrNoSystemdRun}
		}, ""},
		{"a manifest and the certificate", func(f *hosts.Facts) { f.More = map[string]string{"manifest etcd": "kind: Pod\n"} },
			"no kubelet client certificate on this host: it has not joined a cluster\n/etc/kubernetes/manifests/etcd.yaml: no container named etcd"},
	} {
		f := told()
		tt.change(&f)
		got := ""
		if err := understand(f).Err; err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: error is %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestNodeNameIn(t *testing.T) {
	a := newAuthority(t)
	certificate := func(name string) string {
		text, _ := a.client(name)
		return text
	}
	tests := []struct{ name, text, want, problem string }{
		{"a node", certificate("system:node:w-1"), "w-1", ""},
		{"a node with a full name", "\n" + certificate("system:node:w-1.Example.org"), "w-1.Example.org", ""},
		{"nothing", "", "", "no kubelet client certificate on this host: it has not joined a cluster"},
		{"garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "", "kubelet client certificate: x509: malformed certificate"},
		{"of an administrator", certificate("kubernetes-admin"), "", `kubelet client certificate is of "kubernetes-admin", not of a node`},
		{"of no name", certificate("system:node:"), "", `kubelet client certificate is of "system:node:", not of a node`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := nodeNameIn(tt.text)
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			if got != tt.want || problem != tt.problem {
				t.Errorf("got %q, %q, want %q, %q", got, problem, tt.want, tt.problem)
			}
		})
	}
}

func TestParseManifest(t *testing.T) {
	pod := func(component string, args string) string {
		return "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: sidecar\n    image: vpn:1\n  - name: " + component + "\n    image: r/" + component + ":v1\n" + args
	}
	tests := []struct {
		name, component, text string
		want                  Manifest
		problem               string
	}{
		{"API server", "kube-apiserver", pod("kube-apiserver", "    command: [kube-apiserver, --advertise-address=10.0.0.1, --secure-port=7443]\n"),
			Manifest{Image: "r/kube-apiserver:v1", Advertise: "10.0.0.1:7443"}, ""},
		{"API server with defaults", "kube-apiserver", pod("kube-apiserver", "    command: [kube-apiserver]\n"),
			Manifest{Image: "r/kube-apiserver:v1", Advertise: "127.0.0.1:6443"}, ""},
		{"API server with args and a value apart", "kube-apiserver", pod("kube-apiserver", "    command: [kube-apiserver]\n    args: [--advertise-address, \"2001:db8::1\"]\n"),
			Manifest{Image: "r/kube-apiserver:v1", Advertise: "[2001:db8::1]:6443"}, ""},
		{"etcd", "etcd", pod("etcd", "    command: [etcd, \"--advertise-client-urls=https://10.0.0.1:2379,https://10.1.0.1:2379\"]\n"),
			Manifest{Image: "r/etcd:v1", Client: "10.0.0.1:2379"}, ""},
		{"etcd over IPv6", "etcd", pod("etcd", "    command: [etcd, \"--advertise-client-urls=https://[2001:db8::1]:2379\"]\n"),
			Manifest{Image: "r/etcd:v1", Client: "[2001:db8::1]:2379"}, ""},
		{"etcd that advertises nothing", "etcd", pod("etcd", ""), Manifest{Image: "r/etcd:v1"}, ""},
		{"scheduler", "kube-scheduler", pod("kube-scheduler", ""), Manifest{Image: "r/kube-scheduler:v1", Health: "127.0.0.1:10259"}, ""},
		{"scheduler of its own", "kube-scheduler", pod("kube-scheduler", "    command: [kube-scheduler, --bind-address=10.0.0.1, --secure-port=11259, --leader-elect=false]\n"),
			Manifest{Image: "r/kube-scheduler:v1", Health: "10.0.0.1:11259", NoLease: true}, ""},
		{"controller manager on all addresses", "kube-controller-manager", pod("kube-controller-manager", "    command: [x, --bind-address=0.0.0.0, --leader-elect=true]\n"),
			Manifest{Image: "r/kube-controller-manager:v1", Health: "127.0.0.1:10257"}, ""},
		{"controller manager over IPv6", "kube-controller-manager", pod("kube-controller-manager", "    command: [x, \"--bind-address=::1\"]\n"),
			Manifest{Image: "r/kube-controller-manager:v1", Health: "[::1]:10257"}, ""},
		{"another pod", "etcd", pod("kube-scheduler", ""), Manifest{}, "no container named etcd"},
		{"half a file", "etcd", "apiVersion: v1\nkind: Pod\nspec:\n", Manifest{}, "no container named etcd"},
		{"empty", "etcd", "", Manifest{}, "no container named etcd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseManifest(tt.component, tt.text)
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			if got != tt.want || problem != tt.problem {
				t.Errorf("got %+v, %q, want %+v, %q", got, problem, tt.want, tt.problem)
			}
		})
	}
	if _, err := parseManifest("etcd", "kind: [\n"); err == nil {
		t.Error("what is no YAML gives no error")
	}
}
