package config_test

import (
	"errors"
	"os"
	"path/filepath"
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
			SSH: config.SSH{User: "ops", Port: 22, KnownHosts: "/home/ops/.ssh/known_hosts", Sudo: true},
			At:  config.Position{File: "prod.yaml", Line: 4, Column: 5},
		}},
		Workers:  config.Workers{Batch: 1},
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
    ssh: {user: root, sudo: true}
ssh: {user: ops, key: ~/.ssh/id, knownHosts: hosts.txt, port: 22}
workers: {batch: 3}
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
	want := &config.Cluster{
		File: "prod.yaml", Name: "berlin", Target: "v1.36.3", TargetAt: at(2, 9),
		Artifacts: "/mnt/files", ArtifactsAt: at(3, 12), Data: "/home/ops/runs",
		Hosts: []config.Host{
			{Name: "cp-1", Address: "cp-1.example.org", Role: config.ControlPlane, At: at(6, 5),
				SSH: config.SSH{User: "ops", Port: 22, Key: "/home/ops/.ssh/id", KnownHosts: "/srv/clusters/hosts.txt", Sudo: true}},
			{Name: "w-1", Address: "2001:db8::7", Role: config.Worker, At: at(9, 5),
				SSH: config.SSH{User: "root", Port: 2222, Key: "/srv/clusters/keys/w-1", KnownHosts: "/srv/clusters/hosts.txt"}},
			{Name: "w-2", Address: "10.0.0.7", Role: config.Worker, At: at(13, 5),
				SSH: config.SSH{User: "root", Port: 22, Key: "/home/ops/.ssh/id", KnownHosts: "/srv/clusters/hosts.txt", Sudo: true}},
		},
		Workers: config.Workers{Batch: 3},
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
	_, err = config.Load(file)
	want = file + ":4:5: ssh.knownHosts (the default): there is no file " + dir + "/.ssh/known_hosts"
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}

	if err := os.Mkdir(filepath.Join(dir, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ".ssh", "known_hosts"), "")
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "c-data"); c.Data != want {
		t.Errorf("data is %s, want %s", c.Data, want)
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
