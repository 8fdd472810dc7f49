package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/internal/config"
)

// minimal is the smallest good cluster file.
const minimal = `artifacts: files
ssh: {user: ops}
hosts:
  - {name: cp-1, address: 10.0.0.1, role: control-plane}
`

func parse(t *testing.T, text string) *config.Cluster {
	t.Helper()
	t.Setenv("HOME", "/home/ops")
	c, err := config.Parse("prod.yaml", []byte(text), "/srv/clusters")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	got := parse(t, minimal)
	want := &config.Cluster{
		File: "prod.yaml", Name: "prod",
		Artifacts: "/srv/clusters/files", ArtifactsAt: config.Position{File: "prod.yaml", Line: 1, Column: 12},
		Data: "/srv/clusters/prod-data",
		Hosts: []config.Host{{
			Name: "cp-1", Address: "10.0.0.1", Role: config.ControlPlane,
			SSH: config.SSH{User: "ops", Config: config.DefaultConfig, Sudo: true, Tunnel: config.Forward},
			At:  config.Position{File: "prod.yaml", Line: 4, Column: 5},
		}},
		Workers:  config.Workers{Batch: 1, Climb: config.EachRung},
		Drain:    config.Drain{Timeout: 10 * time.Minute},
		Kubeadm:  config.Kubeadm{CertificateRenewal: true},
		Timeouts: config.Timeouts{Kubeadm: 80 * time.Minute, Gate: 10 * time.Minute, Observe: 3 * time.Minute, Stage: 30 * time.Minute},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("defaults (-want +got):\n%s", d)
	}
}

func TestEveryKey(t *testing.T) {
	got := parse(t, `name: berlin
target: 1.36.3
artifacts: /mnt/files
data: ~/runs
hosts:
  - name: cp-1
    address: cp-1.example.org
    role: control-plane
  - name: w-1
    address: 2001:db8::7
    role: worker
    ssh: {user: root, port: 2222, key: keys/w-1}
  - name: w-2
    address: 10.0.0.7
    role: worker
    ssh: {user: root, sudo: true, config: ~/.ssh/lab, jump: [], acceptNewHostKeys: false, tunnel: forward}
  - name: w_3
    address: rack7_w3
    role: worker
    ssh: {config: none, certificate: w3-cert.pub, jump: ['ops@[2001:db8::1]:2222', bastion, 192.0.2.1:22], sudoPasswordFile: w3}
ssh:
  user: ops
  key: ~/.ssh/id
  certificate: ~/.ssh/id-cert.pub
  knownHosts: hosts.txt
  port: 22
  acceptNewHostKeys: true
  config: default
  jump: [bastion.example.org]
  sudoPasswordFile: ~/.sudo
  tunnel: relay
kubeconfig: admin.conf
workers: {batch: 3, climb: once}
drain:
  timeout: 1h30m
  deleteLocalData: ["shop/cache-0"]
  deleteUnmanaged: ["*"]
kubeadm:
  ignorePreflightErrors: [Swap, NumCPU]
  patches: /etc/kubernetes/patches
  certificateRenewal: false
  timeouts: {upgradeManifests: 7m, etcdAPICall: 3m, kubernetesAPICall: 90s}
timeouts: {kubeadm: 2h, gate: 11m, observe: 4m, stage: 45m}
`)
	at := func(line, column int) config.Position {
		return config.Position{File: "prod.yaml", Line: line, Column: column}
	}
	ssh := func(change func(*config.SSH)) config.SSH {
		s := config.SSH{
			User: "ops", Port: 22, Key: "/home/ops/.ssh/id", Certificate: "/home/ops/.ssh/id-cert.pub",
			KnownHosts: "/srv/clusters/hosts.txt", AcceptNewHostKeys: true, Config: config.DefaultConfig,
			Jump: []config.Hop{{Address: "bastion.example.org"}}, SudoPasswordFile: "/home/ops/.sudo", Tunnel: config.Relay,
		}
		change(&s)
		return s
	}
	want := &config.Cluster{
		File: "prod.yaml", Name: "berlin", Target: "v1.36.3", TargetAt: at(2, 9),
		Artifacts: "/mnt/files", ArtifactsAt: at(3, 12), Data: "/home/ops/runs", Kubeconfig: "/srv/clusters/admin.conf",
		Hosts: []config.Host{
			{Name: "cp-1", Address: "cp-1.example.org", Role: config.ControlPlane, At: at(6, 5), SSH: ssh(func(s *config.SSH) { s.Sudo = true })},
			{Name: "w-1", Address: "2001:db8::7", Role: config.Worker, At: at(9, 5), SSH: ssh(func(s *config.SSH) {
				s.User, s.Port, s.Key = "root", 2222, "/srv/clusters/keys/w-1"
			})},
			{Name: "w-2", Address: "10.0.0.7", Role: config.Worker, At: at(13, 5), SSH: ssh(func(s *config.SSH) {
				s.User, s.Sudo, s.Config, s.Jump, s.AcceptNewHostKeys, s.Tunnel = "root", true, "/home/ops/.ssh/lab", []config.Hop{}, false, config.Forward
			})},
			{Name: "w_3", Address: "rack7_w3", Role: config.Worker, At: at(17, 5), SSH: ssh(func(s *config.SSH) {
				s.Config, s.Certificate, s.Sudo, s.SudoPasswordFile = "", "/srv/clusters/w3-cert.pub", true, "/srv/clusters/w3"
				s.Jump = []config.Hop{{User: "ops", Address: "2001:db8::1", Port: 2222}, {Address: "bastion"}, {Address: "192.0.2.1", Port: 22}}
			})},
		},
		Workers: config.Workers{Batch: 3, Climb: config.Once},
		Drain:   config.Drain{Timeout: 90 * time.Minute, DeleteLocalData: []string{"shop/cache-0"}, DeleteUnmanaged: []string{"*"}},
		Kubeadm: config.Kubeadm{
			IgnorePreflightErrors: []string{"Swap", "NumCPU"}, Patches: "/etc/kubernetes/patches",
			Timeouts: config.KubeadmTimeouts{UpgradeManifests: 7 * time.Minute, EtcdAPICall: 3 * time.Minute, KubernetesAPICall: 90 * time.Second},
		},
		Timeouts: config.Timeouts{Kubeadm: 2 * time.Hour, Gate: 11 * time.Minute, Observe: 4 * time.Minute, Stage: 45 * time.Minute},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("cluster (-want +got):\n%s", d)
	}
}

func TestAliasStandsForItsValue(t *testing.T) {
	c := parse(t, "artifacts: a\nssh: &s {user: ops}\nhosts:\n- {name: a, address: a, role: control-plane, ssh: *s}\n")
	if got := c.Hosts[0].SSH.User; got != "ops" {
		t.Errorf("user is %q, want ops", got)
	}
}

func TestSetTarget(t *testing.T) {
	c := parse(t, "target: v1.35.4\n"+minimal)
	if err := c.SetTarget("1.36.3"); err != nil {
		t.Fatal(err)
	}
	if c.Target != "v1.36.3" || c.TargetAt.String() != "--to" {
		t.Errorf("target is %s of %s, want v1.36.3 of --to", c.Target, c.TargetAt)
	}
	err := c.SetTarget("1.37")
	if want := "--to must be a full version such as v1.36.3, got 1.37 without a patch release"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if c.Target != "v1.36.3" {
		t.Errorf("a refused target changed the cluster to %s", c.Target)
	}
}

func TestLoadWantsTheFilesToExist(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	file := filepath.Join(dir, "c.yaml")
	write(t, file, `artifacts: files
ssh: {user: ops, key: id, knownHosts: .}
hosts:
  - {name: cp-1, address: 10.0.0.1, role: control-plane}
  - {name: w-1, address: 10.0.0.2, role: worker, ssh: {key: id}}
`)
	_, err := config.Load(file)
	want := file + ":2:23: ssh.key: there is no file " + dir + "/id\n" +
		file + ":2:39: ssh.knownHosts: " + dir + " is a directory"
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}

	write(t, file, minimal)
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "c-data"); c.Data != want {
		t.Errorf("data is %s, want %s", c.Data, want)
	}
}

// What a host or the cluster counts on is there before the first host is asked, and a password is nobody else's to read.
func TestLoadLooksAtEveryFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	write(t, filepath.Join(dir, "open"), "secret\n")
	if err := os.Chmod(filepath.Join(dir, "open"), 0o640); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "closed"), "secret\n")
	tests := []struct{ name, top, host, want string }{
		{"certificate", "certificate: no", "", "2:20: ssh.certificate: there is no file DIR/no"},
		{"config", "config: no", "", "2:15: ssh.config: there is no file DIR/no"},
		{"config of a host", "", "config: no", "4:60: hosts[0].ssh.config: there is no file DIR/no"},
		{"a file with the name of a word", "config: ./none", "", "2:15: ssh.config: there is no file DIR/none"},
		{"no config", "config: none, user: ops", "", ""},
		{"password", "sudoPasswordFile: no", "", "2:25: ssh.sudoPasswordFile: there is no file DIR/no"},
		{"password for all to see", "sudoPasswordFile: open", "", "2:25: ssh.sudoPasswordFile: DIR/open can be read by others (mode 0640): chmod 600 it"},
		{"password in a directory", "sudoPasswordFile: .", "", "2:25: ssh.sudoPasswordFile: DIR is a directory"},
		{"password as it should be", "sudoPasswordFile: closed", "", ""},
		{"known_hosts", "knownHosts: no", "", "2:19: ssh.knownHosts: there is no file DIR/no"},
		{"known_hosts to come", "knownHosts: no, acceptNewHostKeys: true", "", ""},
		{"known_hosts to come, not for this host", "knownHosts: no, acceptNewHostKeys: true", "acceptNewHostKeys: false", "2:19: ssh.knownHosts: there is no file DIR/no"},
		{"known_hosts of nobody", "knownHosts: no", "knownHosts: closed", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(dir, "c.yaml")
			write(t, file, fmt.Sprintf("artifacts: a\nssh: {%s}\nhosts:\n- {name: a, address: a, role: control-plane, ssh: {%s}}\n", tt.top, tt.host))
			_, err := config.Load(file)
			got := ""
			if err != nil {
				got = strings.ReplaceAll(strings.TrimPrefix(err.Error(), file+":"), dir, "DIR")
			}
			if got != tt.want {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
	file := filepath.Join(dir, "c.yaml")
	write(t, file, minimal+"kubeconfig: no\n")
	if _, err := config.Load(file); err == nil || err.Error() != file+":5:13: kubeconfig: there is no file "+dir+"/no" {
		t.Errorf("error is %v", err)
	}
}

func TestLoadWithoutAFile(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v, want one that says the file does not exist", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
