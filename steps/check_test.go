package steps

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func TestNothingIsFoundOnAHealthyCluster(t *testing.T) {
	for _, shape := range [][2]int{{1, 0}, {1, 1}, {3, 2}} {
		c := cluster(shape[0], shape[1])
		for _, at := range []string{old, "v1.36.1", target} {
			if found := Check(c, seen(c, at)); len(found) > 0 {
				t.Errorf("%v at %s: found %q", shape, at, lines(found))
			}
		}
	}
}

// finds is what changes a healthy cluster of two control planes and one worker, and all that is then found.
type finds struct {
	name   string
	change func(*config.Cluster, *Facts)
	want   []string
}

func (tt finds) run(t *testing.T) {
	t.Run(tt.name, func(t *testing.T) {
		c := cluster(2, 1)
		f := seen(c, old)
		tt.change(c, &f)
		found := Check(c, f)
		if d := cmp.Diff(tt.want, lines(found)); d != "" {
			t.Errorf("findings (-want +got):\n%s", d)
		}
		for _, x := range found {
			if x.Fix == "" {
				t.Errorf("%s has no fix", x.Text)
			}
		}
		blocked := false
		for _, line := range tt.want {
			blocked = blocked || line[:5] == "block"
		}
		if Blocked(found) != blocked {
			t.Errorf("blocked is %v", Blocked(found))
		}
	})
}

func TestChecksOfHosts(t *testing.T) {
	host := func(name string, change func(*Host)) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) { f.host(name, change) }
	}
	for _, tt := range []finds{
		{"unreachable", host("w-1", func(h *Host) { *h = Host{Err: hosts.ErrUnreachable} }),
			[]string{"block | host-reachable | w-1 (prod.yaml:7:5) | unreachable"}},
		{"no control plane reachable", func(_ *config.Cluster, f *Facts) {
			for _, name := range []string{"cp-1", "cp-2"} {
				f.host(name, func(h *Host) { *h = Host{Err: hosts.ErrUnreachable} })
			}
			f.Cluster = ClusterFacts{Err: errors.New("no control plane could be asked")}
		}, []string{
			"block | host-reachable | cp-1 (prod.yaml:5:5) | unreachable",
			"block | host-reachable | cp-2 (prod.yaml:6:5) | unreachable",
			"block | api-reachable | cluster | its state could not be read: no control plane could be asked",
		}},

		{"not a node", host("w-1", func(h *Host) { h.NodeName = "stranger" }), []string{
			`block | host-is-node | w-1 (prod.yaml:7:5) | is not a node of this cluster: its kubelet is "stranger", and there is no such Node`,
			"block | nodes-listed | cluster | node node-of-w-1 (10.0.0.3) is in no entry of prod.yaml",
		}},
		{"two entries of one machine", host("w-1", func(h *Host) { h.NodeName = nodeName("cp-2") }), []string{
			"block | host-is-node | w-1 (prod.yaml:7:5) | is node node-of-cp-2, as is cp-2: two entries are one machine",
			"block | nodes-listed | cluster | node node-of-w-1 (10.0.0.3) is in no entry of prod.yaml",
		}},
		{"a node of the same name in another cluster", host("w-1", func(h *Host) { h.CA = "another CA" }),
			[]string{"block | host-is-node | w-1 (prod.yaml:7:5) | is not a node of this cluster: it trusts another cluster CA"}},
		{"a CA that could not be read says nothing", host("w-1", func(h *Host) { h.CA = "" }), nil},

		{"it is called otherwise in its certificate", host("w-1", func(h *Host) { h.NodeName = "Node-Of-W-1" }), nil},
		{"one that cannot be asked is known by its address", func(_ *config.Cluster, f *Facts) {
			f.host("w-1", func(h *Host) { *h = Host{Err: hosts.ErrUnreachable, Address: "10.0.0.3"} })
			n := f.Cluster.Nodes[nodeName("w-1")]
			n.Cordoned, n.Addresses = true, []string{"10.0.0.3"}
			f.Cluster.Nodes[nodeName("w-1")] = n
			f.Cluster.Nodes["forgotten"] = Node{Name: "forgotten", Kubelet: old, Ready: true, Address: "10.0.0.9"}
		}, []string{
			"block | host-reachable | w-1 (prod.yaml:7:5) | unreachable; node node-of-w-1, which it is, is cordoned",
			"block | nodes-listed | cluster | node forgotten (10.0.0.9) is in no entry of prod.yaml",
			"warn  | nodes-ready | cluster | node node-of-w-1 is cordoned, not by kuberung; it stays so",
		}},

		{"systemd does not run it", host("w-1", func(h *Host) { h.System.Init = hosts.Init{Name: "init", SystemdRun: true} }),
			[]string{"block | systemd-present | w-1 (prod.yaml:7:5) | systemd does not run it, init does"}},
		{"no systemd-run", host("w-1", func(h *Host) { h.System.Init.SystemdRun = false }),
			[]string{"block | systemd-present | w-1 (prod.yaml:7:5) | has no systemd-run"}},
		{"what runs it is not known", host("w-1", func(h *Host) { h.System.Init = hosts.Init{} }),
			[]string{"block | systemd-present | w-1 (prod.yaml:7:5) | which init runs it could not be told"}},
		{"room that could not be told", host("w-1", func(h *Host) {
			h.System.Disks = map[string]hosts.Disk{"/var/lib": {Err: "df says no"}, "/srv": {Err: "df says no"}}
		}), []string{"block | disk-space | w-1 (prod.yaml:7:5) | how much is free below /var/lib could not be told: df says no"}},

		{"a worker that is a control plane", host("w-1", func(h *Host) { h.Manifests["kube-apiserver"] = manifest("kube-apiserver", old) }),
			[]string{"block | role-as-written | w-1 (prod.yaml:7:5) | has the manifest of an API server, but its role is worker"}},
		{"a control plane that is a worker", host("cp-2", func(h *Host) { h.Manifests = nil }), []string{
			"block | role-as-written | cp-2 (prod.yaml:6:5) | has no manifest of etcd in /etc/kubernetes/manifests, but its role is control-plane",
			"block | role-as-written | cp-2 (prod.yaml:6:5) | has no manifest of kube-apiserver in /etc/kubernetes/manifests, but its role is control-plane",
			"block | role-as-written | cp-2 (prod.yaml:6:5) | has no manifest of kube-controller-manager in /etc/kubernetes/manifests, but its role is control-plane",
			"block | role-as-written | cp-2 (prod.yaml:6:5) | has no manifest of kube-scheduler in /etc/kubernetes/manifests, but its role is control-plane",
		}},
		{"external etcd", func(_ *config.Cluster, f *Facts) {
			f.Cluster.ExternalEtcd = true
			f.Cluster.Etcd.Problems = []string{"no member is known"}
			for _, name := range []string{"cp-1", "cp-2"} {
				f.host(name, func(h *Host) { delete(h.Manifests, "etcd") })
			}
		}, []string{"block | role-as-written | cluster | etcd is external to kubeadm, which is not supported yet"}},

		{"commands are missing", host("w-1", func(h *Host) { h.Missing = []string{"ctr", "crictl"} }),
			[]string{"block | host-tools-present | w-1 (prod.yaml:7:5) | lacks ctr, crictl"}},
		{"programs are missing", host("w-1", func(h *Host) { delete(h.Binaries, "kubeadm"); delete(h.Binaries, "kubelet") }), []string{
			"block | host-tools-present | w-1 (prod.yaml:7:5) | has no kubeadm",
			"block | host-tools-present | w-1 (prod.yaml:7:5) | has no kubelet",
		}},
		{"no kubectl on a host is as it likes", host("w-1", func(h *Host) { delete(h.Binaries, "kubectl") }), nil},
		{"a kubelet that was put in place and does not run", host("w-1", func(h *Host) { h.binary("kubelet", target) }),
			[]string{"block | kubelet-as-installed | w-1 (prod.yaml:7:5) | kubelet v1.36.3 is installed, but v1.35.4 runs"}},
		{"a kubelet that we put in place", func(_ *config.Cluster, f *Facts) {
			f.opened("w-1")
			f.host("w-1", func(h *Host) { h.binary("kubelet", target) })
		}, nil},
		{"a kubelet that does not say its version", host("w-1", func(h *Host) { h.binary("kubelet", "") }), nil},
		{"a run to another target", host("cp-2", func(h *Host) { h.Units = []string{"kubeadm-node-v1.36.4"} }),
			[]string{"block | no-other-kubeadm | cp-2 (prod.yaml:6:5) | unit kuberung-kubeadm-node-v1.36.4 of an earlier run is at work"}},
		{"a run to this target", host("cp-2", func(h *Host) { h.Units = []string{"kubeadm-apply-v1.36.3", "kubeadm-node-v1.36.3"} }), nil},
		{"packages", host("w-1", func(h *Host) {
			h.Binaries["kubelet"] = Binary{Path: "/usr/bin/kubelet", Version: old, Owner: "kubelet"}
		}), []string{"block | programs-not-packaged | w-1 (prod.yaml:7:5) | /usr/bin/kubelet belongs to package kubelet; hosts managed by packages are not supported yet"}},
		{"a package manager that cannot tell", host("w-1", func(h *Host) {
			h.Binaries["kubelet"] = Binary{Path: "/usr/bin/kubelet", Version: old, Doubt: "rpm hangs"}
		}), []string{"block | programs-not-packaged | w-1 (prod.yaml:7:5) | whether /usr/bin/kubelet belongs to a package could not be told: rpm hangs"}},
	} {
		tt.run(t)
	}
}

func TestClocks(t *testing.T) {
	clock := func(offset, uncertainty time.Duration) func(*Host) {
		return func(h *Host) { h.System.Clock = hosts.Clock{Offset: offset, Uncertainty: uncertainty} }
	}
	// The three hosts' clocks, and what is found.
	world := func(a, b, c func(*Host)) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) { f.host("cp-1", a); f.host("cp-2", b); f.host("w-1", c) }
	}
	const ms = time.Millisecond
	for _, tt := range []finds{
		{"level", world(clock(20*ms, 10*ms), clock(-20*ms, 10*ms), clock(0, 0)), nil},
		{"a second is allowed", world(clock(0, 0), clock(0, 0), clock(time.Second, 0)), nil},
		{"what is not certain is no difference", world(clock(0, 0), clock(0, 0), clock(-1500*ms, 600*ms)), nil},
		{"more than a second", world(clock(0, 0), clock(0, 0), clock(-1600*ms, 500*ms)),
			[]string{"warn  | clocks-agree | w-1 (prod.yaml:7:5) | its clock is 1.6s behind the other hosts' (±500ms)"}},
		{"half a minute and what is not certain", world(clock(0, 0), clock(0, 0), clock(30*time.Second, 100*ms)),
			[]string{"warn  | clocks-agree | w-1 (prod.yaml:7:5) | its clock is 30s ahead of the other hosts' (±100ms)"}},
		{"an hour", world(clock(0, 0), clock(time.Hour, ms), clock(0, 0)),
			[]string{"block | clocks-agree | cp-2 (prod.yaml:6:5) | its clock is 1h0m0s ahead of the other hosts' (±0s)"}},
		{"ours is the wrong one", world(clock(time.Hour, 0), clock(time.Hour, 0), clock(time.Hour, 0)),
			[]string{"warn  | clocks-agree | this machine | its clock and those of the hosts are 1h0m0s apart"}},
		{"of two hosts ours tells which is right", world(clock(0, 0), clock(time.Minute, 0), func(h *Host) { *h = Host{Err: hosts.ErrUnreachable} }), []string{
			"block | host-reachable | w-1 (prod.yaml:7:5) | unreachable",
			"block | clocks-agree | cp-2 (prod.yaml:6:5) | its clock is 1m0s ahead of the other hosts' (±0s)",
		}},
		{"one that cannot be read", world(clock(0, 0), clock(0, 0), func(h *Host) { h.System.Unknown = map[string]string{"Clock": `date says ""`} }),
			[]string{`block | clocks-agree | w-1 (prod.yaml:7:5) | its clock could not be read: date says ""`}},
	} {
		tt.run(t)
	}
}

func TestCertificates(t *testing.T) {
	const day = 24 * time.Hour
	until := func(ca bool, left ...time.Duration) hosts.CertificateFile {
		var f hosts.CertificateFile
		for _, d := range left {
			f.Certificates = append(f.Certificates, hosts.Certificate{NotAfter: observedAt.Add(d), CA: ca})
		}
		return f
	}
	holds := func(file string, is hosts.CertificateFile) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) {
			f.host("cp-1", func(h *Host) { h.System.Certificates = map[string]hosts.CertificateFile{file: is} })
		}
	}
	apiserver, ca := "/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/ca.crt"
	for _, tt := range []finds{
		{"valid", holds(apiserver, until(false, 8*day)), nil},
		{"absent", holds(apiserver, hosts.CertificateFile{Absent: true}), nil},
		{"a kubeconfig without one", holds(adminConf, hosts.CertificateFile{}), nil},
		{"expired", holds(apiserver, until(false, -day)),
			[]string{"block | certificates-valid | cp-1 (prod.yaml:5:5) | the certificate in /etc/kubernetes/pki/apiserver.crt expired on 2026-02-28: renew it first"}},
		{"in its last second", holds(apiserver, until(false, 0)),
			[]string{"block | certificates-valid | cp-1 (prod.yaml:5:5) | the certificate in /etc/kubernetes/pki/apiserver.crt expired on 2026-03-01: renew it first"}},
		{"in its last week", holds(kubeletClient, until(false, 6*day)),
			[]string{"warn  | certificates-valid | cp-1 (prod.yaml:5:5) | the certificate in /var/lib/kubelet/pki/kubelet-client-current.pem expires on 2026-03-07"}},
		{"expired, and its chain is not", holds(kubeletConf, until(false, -day, 100*day)),
			[]string{"block | certificates-valid | cp-1 (prod.yaml:5:5) | the certificate in /etc/kubernetes/kubelet.conf expired on 2026-02-28: renew it first"}},
		{"expired, and rotated elsewhere", func(_ *config.Cluster, f *Facts) {
			f.host("cp-1", func(h *Host) {
				h.System.Certificates = map[string]hosts.CertificateFile{kubeletConf: until(false, -day), kubeletClient: until(false, 100*day)}
			})
		}, []string{"warn  | certificates-valid | cp-1 (prod.yaml:5:5) | the certificate in /etc/kubernetes/kubelet.conf expired on 2026-02-28; the kubelet uses that in /var/lib/kubelet/pki/kubelet-client-current.pem"}},
		{"an old CA beside the new one", holds(ca, until(true, -day, 1000*day)), nil},
		{"a CA", holds(ca, until(true, -day)),
			[]string{"block | certificates-valid | cp-1 (prod.yaml:5:5) | the certificate in /etc/kubernetes/pki/ca.crt expired on 2026-02-28: renew it first"}},
		{"one that is none", holds(ca, hosts.CertificateFile{Err: "x509: malformed certificate"}),
			[]string{"block | certificates-valid | cp-1 (prod.yaml:5:5) | /etc/kubernetes/pki/ca.crt could not be read: x509: malformed certificate"}},
	} {
		tt.run(t)
	}
}

// Every file that kubeadm keeps has a way to renew what is in it.
func TestFixOfACertificate(t *testing.T) {
	f := seen(cluster(1, 0), old)
	want := map[string]string{
		"/etc/kubernetes/pki/etcd/peer.crt": "kubeadm certs renew etcd-peer,", adminConf: "kubeadm certs renew admin.conf,",
		kubeletConf: "--client-name system:node:node-of-cp-1 ", kubeletClient: "--client-name system:node:node-of-cp-1 ",
		"/etc/kubernetes/pki/ca.crt": "kubeadm renews no CA", "/var/lib/kubelet/pki/kubelet-server-current.pem": "kubectl certificate approve",
	}
	for _, c := range certificateFiles {
		if fix := c.fix(f, "cp-1"); !strings.Contains(fix, want[c.path]) {
			t.Errorf("of %s the fix is %q, want %q", c.path, fix, want[c.path])
		}
	}
}

func TestChecksOfTheCluster(t *testing.T) {
	etcd := func(oldest, staged, pinned string) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) {
			f.Cluster.Etcd.Oldest, f.Cluster.EtcdTag = oldest, pinned
			f.Artifacts.Files = append([]Artifact{{Arch: "amd64", Name: "etcd.tar", SHA256: strings.Repeat("a", 64), Images: []string{"etcd:" + staged}}}, f.Artifacts.Files...)
		}
	}
	node := func(host string, change func(*Node)) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) { f.node(host, change) }
	}
	kubelet := func(host, version string) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) {
			f.node(host, func(n *Node) { n.Kubelet = version })
			f.host(host, func(h *Host) { h.binary("kubelet", version) })
		}
	}
	for _, tt := range []finds{
		{"the API does not answer", func(_ *config.Cluster, f *Facts) { f.Cluster = ClusterFacts{Err: errors.New("no answer")} },
			[]string{"block | api-reachable | cluster | its state could not be read: no answer"}},
		{"a node that no entry names", func(_ *config.Cluster, f *Facts) {
			f.Cluster.Nodes["forgotten"] = Node{Name: "forgotten", Kubelet: old, Ready: true, Address: "10.0.0.9"}
		}, []string{"block | nodes-listed | cluster | node forgotten (10.0.0.9) is in no entry of prod.yaml"}},
		{"it may be the one that could not be asked", func(_ *config.Cluster, f *Facts) {
			f.host("w-1", func(h *Host) { *h = Host{Err: hosts.ErrAuth} })
		}, []string{"block | host-reachable | w-1 (prod.yaml:7:5) | authentication refused"}},

		{"two minors up, and nothing for the one between", func(c *config.Cluster, f *Facts) {
			c.Target, f.Target, f.Artifacts = "v1.37.2", "v1.37.2", files("v1.37.2")
		},
			[]string{"block | artifacts-present | prod.yaml:3:12 | the way from v1.35.4 to v1.37.2 leads over v1.36: kubeadm moves one minor at a time, and there is no whole v1.36 release"}},
		{"older than everything", func(c *config.Cluster, f *Facts) {
			c.Target, f.Target, f.Artifacts = "v1.35.3", "v1.35.3", files("v1.35.3")
		},
			[]string{
				"block | target-reachable | prod.yaml:2:9 | target v1.35.3 is older than kubeadm-config, which is v1.35.4",
				"block | target-reachable | prod.yaml:2:9 | target v1.35.3 is older than the API server of cp-1, which is v1.35.4",
				"block | target-reachable | prod.yaml:2:9 | target v1.35.3 is older than the API server of cp-2, which is v1.35.4",
				"block | target-reachable | prod.yaml:2:9 | target v1.35.3 is older than the kubelet of node-of-cp-1, which is v1.35.4",
				"block | target-reachable | prod.yaml:2:9 | target v1.35.3 is older than the kubelet of node-of-cp-2, which is v1.35.4",
				"block | target-reachable | prod.yaml:2:9 | target v1.35.3 is older than the kubelet of node-of-w-1, which is v1.35.4",
			}},
		{"older than one API server", func(_ *config.Cluster, f *Facts) {
			f.host("cp-2", func(h *Host) { h.APIVersion = "v1.36.4" })
		}, []string{"block | target-reachable | prod.yaml:2:9 | target v1.36.3 is older than the API server of cp-2, which is v1.36.4"}},

		{"a kubelet newer than an API server", kubelet("w-1", target), []string{
			"block | versions-in-skew | cluster | the kubelet of node-of-w-1 (v1.36.3) is newer than the API server of cp-1 (v1.35.4)",
			"block | versions-in-skew | cluster | the kubelet of node-of-w-1 (v1.36.3) is newer than the API server of cp-2 (v1.35.4)",
		}},
		{"a control plane's kubelet newer than another's API server", func(c *config.Cluster, f *Facts) {
			f.moved("cp-1", nodeUnit(target))
			kubelet("cp-1", target)(c, f)
		}, []string{"warn  | versions-in-skew | cluster | the kubelet of node-of-cp-1 (v1.36.3) is newer than the API server of cp-2 (v1.35.4)"}},
		{"a control plane's kubelet newer than its own API server", kubelet("cp-1", target), []string{
			"block | versions-in-skew | cluster | the kubelet of node-of-cp-1 (v1.36.3) is newer than the API server of cp-1 (v1.35.4)",
			"warn  | versions-in-skew | cluster | the kubelet of node-of-cp-1 (v1.36.3) is newer than the API server of cp-2 (v1.35.4)",
		}},
		{"a newer patch is no skew", kubelet("w-1", "v1.35.9"), nil},
		{"a kubelet three minors behind", kubelet("w-1", "v1.33.9"), nil},
		{"a kubelet four minors behind", kubelet("w-1", "v1.32.9"),
			[]string{"block | versions-in-skew | cluster | the kubelet of node-of-w-1 is v1.32.9, more than three minors behind v1.36.3",
				"block | versions-in-skew | w-1 (prod.yaml:7:5) | it would go from v1.32.9 to v1.36.3 over v1.33, and what that minor's kubeadm changes on a node is not known here",
				"block | artifacts-present | prod.yaml:3:12 | the way from v1.35.4 to v1.36.3 leads over v1.35: kubeadm moves one minor at a time, and there is no whole v1.35 release that is not older than v1.35.4"}},
		{"a kubelet without a version", kubelet("w-1", "unknown"),
			[]string{`block | versions-in-skew | cluster | node node-of-w-1 reports kubelet "unknown", which is no version`}},

		{"not Ready", node("w-1", func(n *Node) { n.Ready, n.NotReady = false, "KubeletNotReady: no network" }),
			[]string{"block | nodes-ready | cluster | node node-of-w-1 is not Ready: KubeletNotReady: no network"}},
		{"cordoned by somebody else", node("cp-2", func(n *Node) { n.Cordoned = true }),
			[]string{"warn  | nodes-ready | cluster | node node-of-cp-2 is cordoned, not by kuberung; it stays so"}},
		{"cordoned by us", func(_ *config.Cluster, f *Facts) { f.opened("w-1") }, nil},

		{"an API server is silent", func(_ *config.Cluster, f *Facts) {
			f.host("cp-2", func(h *Host) { h.APIVersion, h.APIErr = "", errors.New("connection refused") })
		}, []string{"block | control-plane-healthy | cp-2 (prod.yaml:6:5) | its API server does not answer: connection refused"}},
		{"a component is not well", func(_ *config.Cluster, f *Facts) {
			f.host("cp-2", func(h *Host) { h.Sick = []string{"kube-scheduler of cp-2: connection refused"} })
		}, []string{"block | control-plane-healthy | cp-2 (prod.yaml:6:5) | kube-scheduler of cp-2: connection refused"}},
		{"etcd is too old for the next one", etcd("3.6.10", "3.7.0-0", ""),
			[]string{"block | etcd-may-move | cluster | etcd is 3.6.10, and must be 3.6.11 before it goes to 3.7.0-0 (https://etcd.io/docs/v3.7/upgrades/upgrade_3_7/)"}},
		{"etcd is new enough for the next one", etcd("3.6.11", "3.7.1-0", ""), nil},
		{"etcd stays in its minor", etcd("3.6.6", "3.6.8-0", ""), nil},
		{"etcd is pinned to its minor", etcd("3.6.6", "3.7.1-0", "3.6.8-0"), nil},
		{"etcd is pinned to the next one", etcd("3.6.6", "3.6.8-0", "3.7.1-0"),
			[]string{"block | etcd-may-move | cluster | etcd is 3.6.6, and must be 3.6.11 before it goes to 3.7.1-0 (https://etcd.io/docs/v3.7/upgrades/upgrade_3_7/)"}},
		{"which etcd there will be is not known", func(_ *config.Cluster, f *Facts) {
			f.Cluster.Etcd.Oldest, f.Artifacts = "3.6.6", Artifacts{Problems: []string{"there is no such directory"}}
		}, []string{"block | artifacts-present | prod.yaml:3:12 | there is no such directory"}},
		{"a workload that is not whole", func(_ *config.Cluster, f *Facts) {
			f.Cluster.Workloads = map[string]Workload{"Deployment shop/web": {3, 2}, "Deployment shop/db": {1, 1}}
		}, []string{"warn  | workloads-ready | cluster | Deployment shop/web has 2 of 3 replicas ready"}},
		{"etcd has problems", func(_ *config.Cluster, f *Facts) { f.Cluster.Etcd.Problems = []string{"cp-1 is behind", "no quorum"} }, []string{
			"block | etcd-healthy | cluster | etcd: cp-1 is behind",
			"block | etcd-healthy | cluster | etcd: no quorum",
		}},

		{"a drain would be refused", func(_ *config.Cluster, f *Facts) {
			f.Cluster.Drains[nodeName("w-1")] = Drain{Refused: []drain.Refusal{shell}}
		}, []string{"block | drain-allowed | cluster | cannot be drained without your consent:\nw-1: tools/shell: nothing brings it back"}},
		{"what a drain would meet is not known", func(_ *config.Cluster, f *Facts) {
			f.Cluster.Drains[nodeName("w-1")] = Drain{Err: errors.New("list pods: forbidden")}
		}, []string{"block | drain-allowed | w-1 (prod.yaml:7:5) | what a drain would meet could not be read: list pods: forbidden"}},
		{"a drain that no waiting helps", func(_ *config.Cluster, f *Facts) {
			f.Cluster.Drains[nodeName("w-1")] = Drain{Never: []string{"shop/web-1: budget web allows no disruption"}}
		}, []string{"block | budgets-allow | w-1 (prod.yaml:7:5) | can never be drained: shop/web-1: budget web allows no disruption"}},
		{"a drain that would have to wait", func(_ *config.Cluster, f *Facts) {
			f.Cluster.Drains[nodeName("w-1")] = Drain{NotNow: []string{"shop/web-1: 2 of 3 are healthy"}}
		}, []string{"warn  | budgets-allow | w-1 (prod.yaml:7:5) | a drain would have to wait: shop/web-1: 2 of 3 are healthy"}},
		{"a node that arrived is not drained", func(_ *config.Cluster, f *Facts) {
			for _, h := range []string{"cp-1", "cp-2"} {
				f.moved(h, nodeUnit(target))
			}
			f.Cluster.KubeadmVersion = target
			f.arrived("w-1")
			f.Cluster.Drains[nodeName("w-1")] = Drain{
				Refused: []drain.Refusal{shell}, Never: []string{"shop/web-1: never"},
			}
		}, nil},
	} {
		tt.run(t)
	}
}

// What forbids to go on comes first; each kind keeps the order of the checks.
func TestBlockingFindingsComeFirst(t *testing.T) {
	c := cluster(1, 1)
	f := seen(c, old)
	f.node("cp-1", func(n *Node) { n.Cordoned = true })
	f.Cluster.Etcd.Problems = []string{"no leader"}
	want := []string{
		"block | etcd-healthy | cluster | etcd: no leader",
		"warn  | nodes-ready | cluster | node node-of-cp-1 is cordoned, not by kuberung; it stays so",
	}
	if d := cmp.Diff(want, lines(Check(c, f))); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
}

// Names of checks are what operators will refer to.
func TestCheckNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range checks {
		if k.name == "" || seen[k.name] || k.look == nil {
			t.Errorf("check %q has no name or look, or its name is used twice", k.name)
		}
		seen[k.name] = true
	}
	for name := range transient {
		if !seen[name] {
			t.Errorf("there is no check %q to pass by itself", name)
		}
	}
}

// shell is a pod that may not go without a consent.
var shell = drain.Refusal{Pod: "tools/shell", Reason: "nothing brings it back", Consent: "Unmanaged", Name: "tools/shell"}

// What a drain needs is told of all nodes at once, as lines for the cluster file that let the drains go.
func TestConsentsToPaste(t *testing.T) {
	c := cluster(1, 2)
	f := seen(c, old)
	cache := func(pod string) drain.Refusal {
		return drain.Refusal{Pod: pod, Reason: "data in emptyDir would be lost: cache", Consent: "LocalData", Name: "shop/web"}
	}
	f.Cluster.Drains[nodeName("w-1")] = Drain{Refused: []drain.Refusal{cache("shop/web-5d9-x"), shell}}
	f.Cluster.Drains[nodeName("w-2")] = Drain{Refused: []drain.Refusal{cache("shop/web-5d9-y")}}
	want := []Finding{{
		Check: "drain-allowed", Where: "cluster", Block: true,
		Text: `cannot be drained without your consent:
w-1: shop/web-5d9-x: data in emptyDir would be lost: cache
w-1: tools/shell: nothing brings it back
w-2: shop/web-5d9-y: data in emptyDir would be lost: cache`,
		Fix: `move the pods away, or agree to the loss, in prod.yaml:
drain:
  deleteLocalData:
    - shop/web
  deleteUnmanaged:
    - tools/shell`,
	}}
	found := Check(c, f)
	if d := cmp.Diff(want, found); d != "" {
		t.Fatalf("findings (-want +got):\n%s", d)
	}
	_, lines, _ := strings.Cut(found[0].Fix, "\n")
	file := "artifacts: a\nhosts: [{name: a, address: a, role: control-plane}]\n" + lines + "\n"
	pasted, err := config.Parse("prod.yaml", []byte(file), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	agreed := config.Drain{Timeout: pasted.Drain.Timeout, DeleteLocalData: []string{"shop/web"}, DeleteUnmanaged: []string{"tools/shell"}}
	if d := cmp.Diff(agreed, pasted.Drain); d != "" {
		t.Errorf("what was pasted (-want +got):\n%s", d)
	}
}
