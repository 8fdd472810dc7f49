package steps

import (
	"sort"

	"github.com/kuberung/kuberung/internal/config"
)

// Finding is one thing that is not as it must be before anything is changed.
type Finding struct {
	Check string `json:"check"` // name of the check, stating the good condition
	Where string `json:"where"` // host, "cluster", or a place in the cluster file
	Block bool   `json:"block"` // false: a warning
	Text  string `json:"text"`
	Fix   string `json:"fix"` // what to do about it
}

// check looks at the facts and says what is wrong. It is pure.
type check struct {
	name string
	look func(*config.Cluster, Facts) []Finding
}

// checks are all there are, in the order in which their findings are told: what the file says, then
// the hosts, then the cluster, then what a drain would meet.
var checks = []check{
	{"host-reachable", hostReachable},
	{"host-keys-known", hostKeysKnown},
	{"host-is-node", hostIsNode},
	{"machine-ids-unique", machineIDsUnique},
	{"systemd-present", systemdPresent},
	{"clocks-agree", clocksAgree},
	{"certificates-valid", certificatesValid},
	{"role-as-written", roleAsWritten},
	{"host-tools-present", hostToolsPresent},
	{"programs-not-packaged", programsNotPackaged},
	{"no-other-kubeadm", noOtherKubeadm},
	{"kubelet-as-installed", kubeletAsInstalled},
	{"api-reachable", apiReachable},
	{"nodes-listed", nodesListed},
	{"target-reachable", targetReachable},
	{"versions-in-skew", versionsInSkew},
	{"artifacts-present", artifactsPresent},
	{"disk-space", diskSpace},
	{"nodes-ready", nodesReady},
	{"control-plane-healthy", controlPlaneHealthy},
	{"etcd-healthy", etcdHealthy},
	{"etcd-may-move", etcdMayMove},
	{"workloads-ready", workloadsReady},
	{"drain-allowed", drainAllowed},
	{"budgets-allow", budgetsAllow},
}

// Check gives every finding at once. It is a pure function of the cluster file and the facts.
func Check(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, k := range checks {
		for _, finding := range k.look(c, f) {
			finding.Check = k.name
			found = append(found, finding)
		}
	}
	found = append(found, foundAhead(c, f, found)...)
	sort.SliceStable(found, func(i, j int) bool { return found[i].Block && !found[j].Block })
	return found
}

// ahead are the checks whose answer can be known for the rungs that come later.
var ahead = map[string]bool{"versions-in-skew": true, "disk-space": true, "etcd-may-move": true}

// foundAhead gives what will stand in the way of a later rung, as far as that can be known before the first.
func foundAhead(c *config.Cluster, f Facts, now []Finding) []Finding {
	if f.Cluster.Err != nil || len(asked(c, f)) < len(c.Hosts) {
		return nil
	}
	told := map[string]bool{}
	for _, finding := range now {
		told[finding.Check+finding.Text] = true
	}
	var found []Finding
	for i, rung := range Climb(c, f, nil) {
		for _, k := range checks {
			if i == 0 || !ahead[k.name] {
				continue
			}
			for _, finding := range k.look(c, rung.Facts) {
				if told[k.name+finding.Text] {
					continue
				}
				told[k.name+finding.Text] = true
				finding.Check, finding.Text = k.name, "when it is time for "+rung.To+": "+finding.Text
				found = append(found, finding)
			}
		}
	}
	return found
}

// Blocked reports whether a finding forbids to go on.
func Blocked(found []Finding) bool {
	for _, f := range found {
		if f.Block {
			return true
		}
	}
	return false
}

func block(where, text, fix string) Finding {
	return Finding{Where: where, Block: true, Text: text, Fix: fix}
}

func warn(where, text, fix string) Finding { return Finding{Where: where, Text: text, Fix: fix} }

// asked lists the hosts of the file that could be asked; the others are findings of host-reachable.
func asked(c *config.Cluster, f Facts) []config.Host {
	var found []config.Host
	for _, h := range c.Hosts {
		if f.Hosts[h.Name].Err == nil {
			found = append(found, h)
		}
	}
	return found
}

// place names a host with its line in the cluster file.
func place(h config.Host) string { return h.Name + " (" + h.At.String() + ")" }
