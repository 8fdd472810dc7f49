package steps

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func hostReachable(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range c.Hosts {
		if err := f.Hosts[h.Name].Err; err != nil {
			found = append(found, block(place(h), err.Error(), reachFix(err)))
		}
	}
	return found
}

func reachFix(err error) string {
	switch {
	case errors.Is(err, hosts.ErrHostKeyUnknown):
		return "compare the fingerprint with the host's console, then add its key to known_hosts"
	case errors.Is(err, hosts.ErrHostKeyChanged):
		return "find out why the key changed; if the host was reinstalled, replace its line in known_hosts"
	case errors.Is(err, hosts.ErrAuth):
		return "check ssh.user and ssh.key in the cluster file against the host's authorized_keys"
	case errors.Is(err, hosts.ErrSudo), errors.Is(err, hosts.ErrNotRoot):
		return "let the SSH user run any command with sudo without a password"
	case errors.Is(err, hosts.ErrUnreachable):
		return "check the address in the cluster file, the host, and the network between"
	}
	return "make the host answer as described, or take it out of the cluster first"
}

// hostIsNode compares who the host says it is with the nodes of the cluster.
func hostIsNode(c *config.Cluster, f Facts) []Finding {
	if f.Cluster.Err != nil {
		return nil
	}
	ca := clusterCA(c, f)
	owner := map[string]string{}
	var found []Finding
	for _, h := range asked(c, f) {
		seen := f.Hosts[h.Name]
		switch other, twice := owner[seen.NodeName]; {
		case twice:
			found = append(found, block(place(h), fmt.Sprintf("is node %s, as is %s: two entries are one machine", seen.NodeName, other),
				"remove one of the two from the cluster file"))
		case f.Cluster.Nodes[seen.NodeName].Name == "":
			found = append(found, block(place(h), fmt.Sprintf("is not a node of this cluster: its kubelet is %q, and there is no such Node", seen.NodeName),
				"remove the host from the cluster file, or join it first"))
		case ca != "" && seen.CA != "" && seen.CA != ca:
			found = append(found, block(place(h), "is not a node of this cluster: it trusts another cluster CA",
				"remove the host from the cluster file"))
		}
		owner[seen.NodeName] = h.Name
	}
	return found
}

func clusterCA(c *config.Cluster, f Facts) string {
	for _, h := range controlPlanes(c) {
		if ca := f.Hosts[h.Name].CA; ca != "" {
			return ca
		}
	}
	return ""
}

func roleAsWritten(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		_, runsAPI := f.Hosts[h.Name].Manifests["kube-apiserver"]
		if h.Role == config.Worker && runsAPI {
			found = append(found, block(place(h), "has the manifest of an API server, but its role is worker",
				"set its role to control-plane"))
		}
		if h.Role != config.ControlPlane {
			continue
		}
		for _, component := range controlPlaneComponents {
			_, there := f.Hosts[h.Name].Manifests[component]
			if !there && !(component == "etcd" && f.Cluster.ExternalEtcd) {
				found = append(found, block(place(h), "has no manifest of "+component+" in /etc/kubernetes/manifests, but its role is control-plane",
					"if an upgrade was cut off, move the newest copy from /etc/kubernetes/tmp back; if it is a worker, say so in the file"))
			}
		}
	}
	if f.Cluster.ExternalEtcd {
		found = append(found, block(wholeCluster, "etcd is external to kubeadm, which is not supported yet", "move this cluster with another tool"))
	}
	return found
}

func hostToolsPresent(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		seen := f.Hosts[h.Name]
		if len(seen.Missing) > 0 {
			found = append(found, block(place(h), "lacks "+strings.Join(seen.Missing, ", "), "install what is named there"))
		}
		for _, name := range []string{"kubeadm", "kubelet"} {
			if _, there := seen.Binaries[name]; !there {
				found = append(found, block(place(h), "has no "+name, "install the "+name+" of the version the node runs now"))
			}
		}
	}
	return found
}

func programsNotPackaged(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		for _, name := range binaries {
			b, there := f.Hosts[h.Name].Binaries[name]
			if there && b.Owner != "" {
				found = append(found, block(place(h), fmt.Sprintf("%s belongs to package %s; hosts managed by packages are not supported yet", b.Path, b.Owner),
					"move this host with its package manager"))
			}
		}
	}
	return found
}

// spare is what must stay free beside what is staged and installed.
const spare = 512 << 20

func diskSpace(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		seen := f.Hosts[h.Name]
		need := map[string]int64{"/var/lib": spare, "/var/lib/containerd": spare}
		for _, a := range staging(f, seen) {
			if a.Images == nil && !seen.Staged[a.stagedAt(f.Target)] {
				need["/var/lib"] += 2 * a.Size // staged, and the old one kept
				need["/usr/bin"] += a.Size     // the new one beside the old for a moment
			}
		}
		_, images := missingImages(f, seen)
		need["/var/lib/containerd"] += 3 * images // the archive, its layers, and those unpacked
		if h.Role == config.ControlPlane {
			need["/etc/kubernetes"] = f.Cluster.Etcd.DBSize + spare/8 // kubeadm copies etcd's data there
		}
		for _, d := range seen.Free {
			if want := need[d.Path]; d.Free < want {
				found = append(found, block(place(h), fmt.Sprintf("%s has %s free, %s are needed", d.Path, mebibytes(d.Free), mebibytes(want)),
					"make room there"))
			}
		}
	}
	return found
}
