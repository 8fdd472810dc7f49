package steps

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// observe runs the script with its absolute paths below the root and none of this machine's programs,
// and understands its output.
func (m *machine) observe() (string, Host, error) {
	m.t.Helper()
	text := strings.Replace(observeScript, `PATH="$PATH:`, `PATH="$PATH" IGNORED=":`, 1)
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
	h, err := parseHost(string(out))
	return string(out), h, err
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
	m.program("uname", "echo x86_64")
	m.program("kubeadm", "[ \"$*\" = 'version -o short' ] && echo v1.35.4")
	m.program("kubelet", "[ \"$*\" = --version ] && echo Kubernetes v1.35.4")
	m.program("kubectl", "printf 'Client Version: v1.35.4\\nKustomize Version: v5.7.1\\n'")
	m.program("crictl", "echo crictl version v1.35.0")
	m.program("systemctl", `case $1 in
show) echo '{ path='"$BIN"'/kubelet ; argv[]='"$BIN"'/kubelet $KUBELET_KUBEADM_ARGS ; ignore_errors=no }' ;;
list-units) printf 'kuberung-kubeadm-node-v1.36.4.service loaded active running kuberung: kubeadm-node-v1.36.4\n' ;;
esac`)
	m.program("ctr", "echo registry.k8s.io/pause:3.10.1; echo sha256:0123")
	m.program("dpkg", "echo 'dpkg-query: no path found matching pattern' >&2; exit 1")
	m.program("rpm", "echo \"file $2 is not owned by any package\"; exit 1")
	for _, name := range []string{"systemd-run", "sha256sum"} {
		m.program(name, ":")
	}
	return m
}

func TestObserveScript(t *testing.T) {
	m := controlPlane(t)
	out, h, err := m.observe()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "PRIVATE KEY") || strings.Contains(out, "c2VjcmV0") {
		t.Error("the kubelet's private key is in the output")
	}
	if len(h.Free) < 2 || h.Free[0].Path != "/var/lib" || !strings.HasPrefix(h.Free[0].Path, h.Free[0].Mount) || h.Free[0].Free < 1<<20 {
		t.Errorf("free space is %+v", h.Free)
	}
	if !strings.HasPrefix(h.CA, "-----BEGIN CERTIFICATE-----") {
		t.Errorf("CA is %q", h.CA)
	}
	h.Free, h.CA = nil, ""
	binary := func(name, version string) Binary { return Binary{Path: m.bin + "/" + name, Version: version} }
	want := Host{
		NodeName: "control-plane-a.example.org", // not what hostname says
		Arch:     "amd64",
		Binaries: map[string]Binary{
			"kubeadm": binary("kubeadm", "v1.35.4"), "kubelet": binary("kubelet", "v1.35.4"),
			"kubectl": binary("kubectl", "v1.35.4"), "crictl": binary("crictl", "v1.35.0"),
		},
		CRI:     "unix:///run/other.sock",
		Missing: []string{},
		Units:   []string{"kubeadm-node-v1.36.4"},
		Staged:  map[string]bool{m.root + stageDir + "/v1.36.3/kubelet.0123456789abcdef": true},
		Images:  map[string]bool{"registry.k8s.io/pause:3.10.1": true, "sha256:0123": true},
		Manifests: map[string]Manifest{
			"kube-apiserver": {Image: "registry.k8s.io/kube-apiserver:v1.35.4", Advertise: "10.0.0.1:6444"},
			"etcd":           {Image: "registry.k8s.io/etcd:3.6.6-0", Client: "10.0.0.1:2379"},
		},
	}
	if d := cmp.Diff(want, h); d != "" {
		t.Errorf("host (-want +got):\n%s", d)
	}
}

// An older kubeadm writes the runtime's address into flags, and a kubelet without rotation has its
// certificate in its kubeconfig.
func TestObserveScriptFallsBack(t *testing.T) {
	m := controlPlane(t)
	for _, name := range []string{"/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/pki/kubelet-client-current.pem"} {
		if err := os.Remove(m.root + name); err != nil {
			t.Fatal(err)
		}
	}
	cert, _ := newAuthority(t).client("system:node:b")
	m.file("/etc/kubernetes/kubelet.conf", "users:\n- user:\n    client-certificate-data: "+base64.StdEncoding.EncodeToString([]byte(cert))+"\n")
	_, h, err := m.observe()
	if err != nil || h.NodeName != "b" || h.CRI != "unix:///run/flags.sock" {
		t.Errorf("error %v, node %q, runtime %q", err, h.NodeName, h.CRI)
	}
}

func TestObserveScriptOnAHostThatNeverJoined(t *testing.T) {
	m := newMachine(t)
	m.program("uname", "echo riscv64")
	_, h, err := m.observe()
	if want := "no kubelet client certificate on this host: it has not joined a cluster"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if h.Arch != "riscv64" || len(h.Binaries)+len(h.Manifests)+len(h.Staged)+len(h.Images) > 0 {
		t.Errorf("host is %+v", h)
	}
	if got, want := strings.Join(h.Missing, " "), "systemd-run systemctl sha256sum ctr crictl"; got != want {
		t.Errorf("missing are %q, want %q", got, want)
	}
}

// The kubelet that counts is the one that its unit starts, wherever the search path leads.
func TestObserveScriptAsksTheKubeletOfTheUnit(t *testing.T) {
	m := controlPlane(t)
	m.program("kubelet-of-the-unit", "echo Kubernetes v1.34.9")
	m.program("systemctl", `[ "$1" = show ] && echo "{ path=$BIN/kubelet-of-the-unit ; argv[]=x }"`)
	_, h, err := m.observe()
	if got := h.Binaries["kubelet"]; err != nil || got.Version != "v1.34.9" || got.Path != m.bin+"/kubelet-of-the-unit" {
		t.Errorf("error %v, kubelet %+v", err, got)
	}
	m.program("systemctl", `echo "{ path=/nowhere/kubelet ; argv[]=x }"`)
	if _, h, err = m.observe(); err != nil || h.Binaries["kubelet"].Version != old {
		t.Errorf("error %v, kubelet %+v, want that of the search path", err, h.Binaries["kubelet"])
	}
}

// Programs of packages are told with the package, of either kind.
func TestObserveScriptTellsPackages(t *testing.T) {
	m := controlPlane(t)
	m.program("dpkg", `case $2 in */kubelet) echo "kubelet: $2" ;; *) exit 1 ;; esac`)
	m.program("rpm", `case $2 in */kubeadm) echo kubeadm-1.35.4-150500.1.1.x86_64 ;; *) echo "file $2 is not owned by any package"; exit 1 ;; esac`)
	_, h, err := m.observe()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kubelet": "kubelet", "kubeadm": "kubeadm-1.35.4-150500.1.1.x86_64", "kubectl": "", "crictl": ""}
	for name, owner := range want {
		if got := h.Binaries[name].Owner; got != owner {
			t.Errorf("%s belongs to %q, want %q", name, got, owner)
		}
	}
}

// An answer that ends anywhere before its end is an error: what is missing in it is not missing on the host.
func TestATruncatedAnswerIsAnError(t *testing.T) {
	out, _, err := controlPlane(t).observe()
	if err != nil {
		t.Fatal(err)
	}
	end := strings.LastIndex(out, "#@ end")
	for i := 0; i < end; i += 97 {
		if _, err := parseHost(out[:i]); err == nil || !strings.HasPrefix(err.Error(), "the host's answer ends early: ") {
			t.Fatalf("after %d of %d bytes the error is %v", i, len(out), err)
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

// A broken manifest is told with its file, and the node's name with it, if that is wrong too.
func TestParseHostTellsAllThatIsWrong(t *testing.T) {
	_, err := parseHost("\n#@ certificate\n\n#@ manifest etcd\nkind: Pod\n\n#@ end\n")
	want := "no kubelet client certificate on this host: it has not joined a cluster\n" +
		"/etc/kubernetes/manifests/etcd.yaml: no container named etcd"
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}

func TestGoArch(t *testing.T) {
	for machine, want := range map[string]string{"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64"} {
		if got := goArch(machine); got != want {
			t.Errorf("%s is %s, want %s", machine, got, want)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "uname", "-m").Output(); err != nil || goArch(strings.TrimSpace(string(out))) != runtime.GOARCH {
		t.Errorf("uname says %q, %v, Go says %s", out, err, runtime.GOARCH)
	}
}
