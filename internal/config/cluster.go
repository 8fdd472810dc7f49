package config

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

func newReader(file, dir string) *reader {
	home, _ := os.UserHomeDir() // without one, a path that starts with ~ is an error of its own
	return &reader{file: file, dir: dir, home: home}
}

// defaults gives a cluster as an empty file would describe it.
func defaults(file string) *Cluster {
	base := filepath.Base(file)
	return &Cluster{
		File:    file,
		Name:    strings.TrimSuffix(base, filepath.Ext(base)),
		Workers: Workers{Batch: 1, Climb: EachRung},
		Drain:   Drain{Timeout: 10 * time.Minute},
		Kubeadm: Kubeadm{CertificateRenewal: true},
		Timeouts: Timeouts{
			// With its own defaults kubeadm may wait 5 minutes for each of three components at
			// first, twice 5 for each of four that it replaces, and over 20 in all for etcd.
			Kubeadm: 80 * time.Minute,
			Gate:    10 * time.Minute,
			Observe: 3 * time.Minute,
			Stage:   30 * time.Minute,
		},
	}
}

// cluster reads a whole cluster file. What it returns is only good when r has met no mistake.
func (r *reader) cluster(data []byte) *Cluster {
	c := defaults(r.file)
	top := r.document(data)
	if top == nil {
		return c
	}
	access := access{SSH: SSH{Config: DefaultConfig, Tunnel: Forward}}
	given := r.object(top, "", []field{
		{"name", r.text(&c.Name, isName)},
		{"target", r.target(c)},
		{"artifacts", r.artifacts(c)},
		{"data", r.path(&c.Data)},
		{"kubeconfig", r.localFile(&c.Kubeconfig, exists)},
		{"ssh", r.ssh(&access)},
		{"hosts", r.hosts(&c.Hosts, &access)},
		{"workers", r.section(
			field{"batch", r.number(&c.Workers.Batch, 1, math.MaxInt)},
			field{"climb", r.text(&c.Workers.Climb, isClimb)},
		)},
		{"drain", r.section(
			field{"timeout", r.duration(&c.Drain.Timeout)},
			field{"deleteLocalData", r.texts(&c.Drain.DeleteLocalData, isConsent)},
			field{"deleteUnmanaged", r.texts(&c.Drain.DeleteUnmanaged, isConsent)},
		)},
		{"kubeadm", r.kubeadm(&c.Kubeadm)},
		{"timeouts", r.section(
			field{"kubeadm", r.duration(&c.Timeouts.Kubeadm)},
			field{"gate", r.duration(&c.Timeouts.Gate)},
			field{"observe", r.duration(&c.Timeouts.Observe)},
			field{"stage", r.duration(&c.Timeouts.Stage)},
		)},
	})
	r.require(top, "", given, "artifacts", "hosts")
	if c.Data == "" {
		c.Data = filepath.Join(r.dir, c.Name+"-data")
	}
	return c
}

// require complains about each key that n should have but has not. Given comes from object; nil
// means that n was already refused as a whole.
func (r *reader) require(n *yaml.Node, path string, given map[string]bool, keys ...string) {
	if given == nil {
		return
	}
	for _, k := range keys {
		if !given[k] {
			r.fail(n, "%s is missing", join(path, k))
		}
	}
}

// target reads a version. Unquoted, YAML takes 1.36 for a number, so any scalar is looked at.
func (r *reader) target(c *Cluster) readValue {
	return func(n *yaml.Node, path string) {
		if n = resolve(n); n.Kind != yaml.ScalarNode || isNull(n) {
			r.fail(n, "%s must be a version such as v1.36.3, got %s", path, describe(n))
			return
		}
		version, problem := fullVersion(n.Value)
		if problem != "" {
			r.fail(n, "%s %s", path, problem)
			return
		}
		c.Target, c.TargetAt = version, r.at(n)
	}
}

func (r *reader) artifacts(c *Cluster) readValue {
	return func(n *yaml.Node, path string) {
		r.path(&c.Artifacts)(n, path)
		c.ArtifactsAt = r.at(n)
	}
}

func (r *reader) kubeadm(k *Kubeadm) readValue {
	return r.section(
		field{"ignorePreflightErrors", r.texts(&k.IgnorePreflightErrors, isPreflightCheck)},
		field{"patches", r.text(&k.Patches, isHostPath)},
		field{"certificateRenewal", r.flag(&k.CertificateRenewal)},
		field{"timeouts", r.section(
			field{"upgradeManifests", r.duration(&k.Timeouts.UpgradeManifests)},
			field{"etcdAPICall", r.duration(&k.Timeouts.EtcdAPICall)},
			field{"kubernetesAPICall", r.duration(&k.Timeouts.KubernetesAPICall)},
		)},
	)
}
