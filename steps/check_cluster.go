package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func apiReachable(_ *config.Cluster, f Facts) []Finding {
	if f.Cluster.Err == nil {
		return nil
	}
	return []Finding{block(wholeCluster, "its state could not be read: "+f.Cluster.Err.Error(), apiFix(f.Cluster.Err))}
}

func apiFix(err error) string {
	switch {
	case errors.Is(err, hosts.ErrForwardingRefused):
		return "one of three: let sshd on the hosts forward this user's connections (AllowTcpForwarding, PermitOpen, DisableForwarding in sshd_config); " +
			"set ssh.tunnel: relay in the cluster file, which goes through a program on the host; " +
			"or name a kubeconfig there, if the API servers can be reached from this machine"
	case errors.Is(err, errNobodyAsked):
		return "see what is said of the control planes"
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return "see whether /etc/kubernetes/admin.conf on the control planes is still valid: kubeadm certs check-expiration"
	case apierrors.IsNotFound(err):
		return "restore what is missing: kuberung moves clusters that kubeadm made and knows"
	case errors.Is(err, fs.ErrNotExist):
		return "put the file back; kuberung signs in as kubeadm's admin does"
	}
	return "make an API server answer"
}

// nodesListed looks for nodes that the cluster file does not name: they would be left behind.
func nodesListed(c *config.Cluster, f Facts) []Finding {
	listed := map[string]bool{}
	for _, h := range c.Hosts {
		name := f.NodeName(h.Name)
		if name == "" && f.Hosts[h.Name].Err != nil {
			return nil // it may be any of them
		}
		listed[name] = true
	}
	var found []Finding
	for _, name := range sorted(f.Cluster.Nodes) {
		if !listed[name] {
			found = append(found, block(wholeCluster, fmt.Sprintf("node %s (%s) is in no entry of %s", name, f.Cluster.Nodes[name].Address, c.File),
				"add it under hosts, or delete the Node if the machine is gone"))
		}
	}
	return found
}

func nodesReady(_ *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, name := range sorted(f.Cluster.Nodes) {
		n := f.Cluster.Nodes[name]
		if !n.Ready {
			found = append(found, block(wholeCluster, fmt.Sprintf("node %s is not Ready: %s", name, n.NotReady), "repair the node, or remove it from the cluster"))
		}
		if n.Ready && n.Cordoned && n.Window == "" {
			found = append(found, warn(wholeCluster, fmt.Sprintf("node %s is cordoned, not by kuberung; it stays so", name), "uncordon it yourself if that is not wanted"))
		}
	}
	return found
}

func controlPlaneHealthy(c *config.Cluster, f Facts) []Finding {
	if f.Cluster.Err != nil {
		return nil
	}
	var found []Finding
	for _, h := range controlPlanes(c) {
		if err := f.Hosts[h.Name].APIErr; err != nil && f.Hosts[h.Name].Err == nil {
			fix := "repair that control plane first"
			if errors.Is(err, hosts.ErrForwardingRefused) {
				fix = apiFix(err)
			}
			found = append(found, block(place(h), "its API server does not answer: "+err.Error(), fix))
		}
		for _, sick := range f.Hosts[h.Name].Sick {
			found = append(found, block(place(h), sick, "repair that control plane first"))
		}
	}
	return found
}

func etcdHealthy(_ *config.Cluster, f Facts) []Finding {
	if f.Cluster.Err != nil || f.Cluster.ExternalEtcd {
		return nil
	}
	var found []Finding
	for _, problem := range f.Cluster.Etcd.Problems {
		found = append(found, block(wholeCluster, "etcd: "+problem, "bring all members to health first"))
	}
	return found
}

// etcdFloors are the versions that all members must have before they may go to a minor.
var etcdFloors = []struct{ to, atLeast, source string }{
	{"3.7.0-0", "3.6.11", "https://etcd.io/docs/v3.7/upgrades/upgrade_3_7/"},
}

func etcdMayMove(c *config.Cluster, f Facts) []Finding {
	oldest, wanted := f.Cluster.Etcd.Oldest, ""
	for _, h := range controlPlanes(c) {
		wanted = wantedEtcd(f, f.Hosts[h.Name].Arch)
	}
	if wanted == "" {
		return nil // what is missing is told with the artifacts
	}
	var found []Finding
	for _, floor := range etcdFloors {
		if !older(wanted, floor.to) && older(oldest, floor.atLeast) {
			found = append(found, block(wholeCluster, fmt.Sprintf("etcd is %s, and must be %s before it goes to %s (%s)", oldest, floor.atLeast, wanted, floor.source),
				"move etcd there first: etcd.local.imageTag in kubeadm-config, then kubeadm upgrade apply of the version that runs"))
		}
	}
	return found
}

func workloadsReady(_ *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, name := range sorted(f.Cluster.Workloads) {
		if w := f.Cluster.Workloads[name]; w.Ready < w.Desired {
			found = append(found, warn(wholeCluster, fmt.Sprintf("%s has %d of %d replicas ready", name, w.Ready, w.Desired),
				"let it recover first: it is not waited for to become better than it is now"))
		}
	}
	return found
}

// toDrain lists the hosts that this rung drains.
func toDrain(c *config.Cluster, f Facts) []config.Host {
	var found []config.Host
	for _, h := range asked(c, f) {
		if f.Cluster.Err == nil && waits(c, f, h) == "" && (needsKubelet(f, h.Name) != "" || needsRestart(f, h.Name) != "") {
			found = append(found, h)
		}
	}
	return found
}

func drainAllowed(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	var refused []drain.Refusal
	text := "cannot be drained without your consent:"
	for _, h := range toDrain(c, f) {
		d := f.Cluster.Drains[f.NodeName(h.Name)]
		if d.Err != nil {
			found = append(found, block(place(h), "what a drain would meet could not be read: "+d.Err.Error(), "run the check again"))
		}
		for _, r := range d.Refused {
			text += fmt.Sprintf("\n%s: %s: %s", h.Name, r.Pod, r.Reason)
		}
		refused = append(refused, d.Refused...)
	}
	if len(refused) > 0 {
		found = append(found, block(wholeCluster, text, "move the pods away, or agree to the loss, in "+c.File+":\n"+consentLines(refused)))
	}
	return found
}

// consentLines are what a cluster file must have for pods to go.
func consentLines(refused []drain.Refusal) string {
	text := "drain:"
	for _, k := range []struct{ consent, key string }{{"LocalData", "deleteLocalData"}, {"Unmanaged", "deleteUnmanaged"}} {
		names := map[string]bool{}
		for _, r := range refused {
			if r.Consent == k.consent {
				names[r.Name] = true
			}
		}
		if len(names) > 0 {
			text += "\n  " + k.key + ":\n    - " + strings.Join(sorted(names), "\n    - ")
		}
	}
	return text
}

func budgetsAllow(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range toDrain(c, f) {
		d := f.Cluster.Drains[f.NodeName(h.Name)]
		for _, never := range d.Never {
			found = append(found, block(place(h), "can never be drained: "+never, "change the disruption budget or the number of replicas"))
		}
		for _, now := range d.NotNow {
			found = append(found, warn(place(h), "a drain would have to wait: "+now,
				fmt.Sprintf("let the workload recover; a drain waits up to %s", c.Drain.Timeout)))
		}
	}
	return found
}
