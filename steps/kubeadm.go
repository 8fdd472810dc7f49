package steps

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// upgradeConfiguration is kubeadm's UpgradeConfiguration, as far as kuberung sets it. The timeouts
// can be given in no other way, and flags may not be mixed with it.
// https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/#kubeadm-k8s-io-v1beta4-UpgradeConfiguration
type upgradeConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	Apply           *upgradeRun    `json:"apply,omitempty"`
	Node            *upgradeRun    `json:"node,omitempty"`
	Timeouts        map[string]any `json:"timeouts,omitempty"`
}

type upgradeRun struct {
	KubernetesVersion     string   `json:"kubernetesVersion,omitempty"` // apply only
	CertificateRenewal    bool     `json:"certificateRenewal"`
	EtcdUpgrade           bool     `json:"etcdUpgrade"`
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	Patches               *patches `json:"patches,omitempty"`
	SkipPhases            []string `json:"skipPhases,omitempty"`
}

type patches struct {
	Directory string `json:"directory"`
}

// kubeadmFile renders the configuration of one run of kubeadm. It is the same for each host and
// each time: patches and ignored errors are not remembered by kubeadm.
func kubeadmFile(k config.Kubeadm, target string, apply bool, skip []string) ([]byte, error) {
	run := &upgradeRun{
		CertificateRenewal: k.CertificateRenewal, EtcdUpgrade: true,
		IgnorePreflightErrors: k.IgnorePreflightErrors, SkipPhases: skip,
	}
	if k.Patches != "" {
		run.Patches = &patches{k.Patches}
	}
	c := upgradeConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "kubeadm.k8s.io/v1beta4", Kind: "UpgradeConfiguration"},
		Timeouts: map[string]any{},
	}
	for name, d := range map[string]time.Duration{
		"upgradeManifests": k.Timeouts.UpgradeManifests, "etcdAPICall": k.Timeouts.EtcdAPICall,
		"kubernetesAPICall": k.Timeouts.KubernetesAPICall,
	} {
		if d > 0 {
			c.Timeouts[name] = d.String()
		}
	}
	if apply {
		run.KubernetesVersion = target
		c.Apply = run
	} else {
		c.Node = run
	}
	return yaml.Marshal(c)
}

// absentAddOns are the phases that would bring back what a site has removed or replaced: kubeadm asks
// its configuration only, never whether the add-on is there. A worker's kubeadm has no such phases.
func absentAddOns(f Facts, host string) []string {
	var skip []string
	if f.Hosts[host].Role == config.Worker {
		return nil
	}
	if f.Cluster.ProxyImage == "" {
		skip = append(skip, "addon/kube-proxy")
	}
	if f.Cluster.CoreDNSImage == "" {
		skip = append(skip, "addon/coredns")
	}
	return skip
}

// checkImages asks the target's kubeadm which images it will use, before it changes anything: one that
// was not staged would be pulled in the middle, or not at all.
func (s *Session) checkImages(ctx context.Context, f Facts, host string) error {
	h := f.Hosts[host]
	out, err := s.host(host).Run(ctx, hosts.Cmd{Sudo: true, Timeout: time.Minute, Argv: []string{
		h.Binaries["kubeadm"].Path, "config", "images", "list", "--kubernetes-version", f.Target}})
	if err != nil {
		return fmt.Errorf("kubeadm config images list: %w", err)
	}
	for _, image := range strings.Fields(string(out)) {
		name, tag := repositoryOf(image), tagOf(image)
		pinned := name == "etcd" && f.Cluster.EtcdTag != "" || name == "coredns" && (f.Cluster.DNSTag != "" || f.Cluster.CoreDNSImage == "") ||
			name == "kube-proxy" && f.Cluster.ProxyImage == ""
		if have := f.Artifacts.Image(h.Arch, name); have != tag && !pinned {
			return fmt.Errorf("kubeadm %s uses %s %s, but the artifacts have %q; nothing was changed on %s but kubeadm itself: correct %s and run again",
				f.Target, name, tag, have, host, s.Cluster.Artifacts)
		}
	}
	return nil
}

// runKubeadm runs `kubeadm upgrade apply` or `node` as a detached unit: it comes to its end whatever
// happens to the connection or to the operator's machine, and is never run twice at once.
func (s *Session) runKubeadm(ctx context.Context, f Facts, host string, apply bool, log engine.Logf) error {
	h := s.host(host)
	text, err := kubeadmFile(s.Cluster.Kubeadm, f.Target, apply, absentAddOns(f, host))
	if err != nil {
		return err
	}
	unit := hosts.Unit{Name: nodeUnit(f.Target), Limit: s.Cluster.Timeouts.Kubeadm}
	verb := []string{"node"}
	if apply {
		unit.Name, verb = applyUnit(f.Target), []string{"apply", "--yes"}
	}
	file := "/var/lib/kuberung/" + unit.Name + ".yaml"
	if err := h.WriteFile(ctx, file, text, 0o600); err != nil {
		return err
	}
	unit.Argv = append([]string{f.Hosts[host].Binaries["kubeadm"].Path, "upgrade"}, verb...)
	unit.Argv = append(unit.Argv, "--config", file)
	found := f.Hosts[host].Kubeadm[unit.Name].State
	record, adopted, err := h.RunUnit(ctx, unit, kubeadmLines(log))
	if adopted && found != hosts.Running && record.State == hosts.Exited {
		// A result that was there when the facts were read, and they still ask for a run.
		log("an earlier run of %s ended with exit status %d; running it again", unit.Name, record.Code)
		record, _, err = h.RunUnit(ctx, unit, kubeadmLines(log))
	}
	if record.State == hosts.Exited && record.Code != 0 {
		return fmt.Errorf("kubeadm upgrade %s ended with exit status %d:\n%s\nIts whole output: /var/lib/kuberung/units/%s/output on %s",
			verb[0], record.Code, plain(record.Tail), unit.Name, host)
	}
	return err
}

var (
	colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	// verification matches the lines of kubeadm's system verification that say of a kernel setting or
	// a cgroup controller what it is; problems are told again as WARNING or ERROR.
	verification = regexp.MustCompile(`^(KERNEL_VERSION|OS|CONFIG_[A-Z0-9_]+|CGROUPS_[A-Z0-9_]+|DOCKER_[A-Z_]+): `)
)

func plain(text string) string { return colours.ReplaceAllString(text, "") }

// kubeadmLines reports what kubeadm says, without colours, empty lines and the list of kernel
// settings. The whole output stays on the host.
func kubeadmLines(log engine.Logf) func(string) {
	return func(line string) {
		if line = strings.TrimRight(plain(line), " "); line != "" && !verification.MatchString(line) {
			log("%s", line)
		}
	}
}

// UpgradeControlPlane lets kubeadm move the static pods of a control plane: `apply` on the first,
// `node` on the others.
func UpgradeControlPlane(s *Session, host string, todo func(Facts, string) string, apply bool) engine.Step[Facts] {
	command := "kubeadm upgrade node"
	if apply {
		command = "kubeadm upgrade apply"
	}
	return step{
		Name:  "upgrade-control-plane",
		Does:  "run " + command + ": etcd, API server, controller manager and scheduler restart",
		Needs: func(f Facts) string { return todo(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			if !apply {
				if err := s.checkKubeadmConfig(ctx, f.Target); err != nil {
					return err
				}
			}
			if err := s.checkImages(ctx, f, host); err != nil {
				return err
			}
			if err := s.runKubeadm(ctx, f, host, apply, log); err != nil {
				return err
			}
			return await(ctx, s.Cluster.Timeouts.Gate, 0, log, s.apiServerIs(host, f.Target))
		},
	}
}

// UpgradeNode lets kubeadm write the kubelet's configuration on a worker.
func UpgradeNode(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "upgrade-node",
		Does:  "run kubeadm upgrade node: the kubelet's configuration is written anew",
		Needs: func(f Facts) string { return needsNodeConfig(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			if err := s.checkKubeadmConfig(ctx, f.Target); err != nil {
				return err
			}
			return s.runKubeadm(ctx, f, host, false, log)
		},
	}
}

// errOldConfig says that the first control plane's apply has not come to its end.
var errOldConfig = errors.New("the cluster's kubeadm-config does not name the target yet")

// checkKubeadmConfig reads the target back before `kubeadm upgrade node` takes it from there: with an
// old version in it, kubeadm would render the old manifests again and call that a success.
func (s *Session) checkKubeadmConfig(ctx context.Context, target string) error {
	var version string
	err := poll(ctx, s.Cluster.Timeouts.Observe, time.Second, func(ctx context.Context) (bool, error) {
		c, err := readKubeadmConfig(ctx, s.api())
		version = c.KubernetesVersion
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if version != target {
		return fmt.Errorf("%w: it says %s, not %s; run the same command again, it finishes kubeadm upgrade apply first",
			errOldConfig, version, target)
	}
	return nil
}
