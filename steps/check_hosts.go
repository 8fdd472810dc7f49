package steps

import (
	"fmt"
	"path"
	"strings"

	"github.com/kuberung/kuberung/internal/config"
)

// hostIsNode compares who the host says it is with the nodes of the cluster.
func hostIsNode(c *config.Cluster, f Facts) []Finding {
	if f.Cluster.Err != nil {
		return nil
	}
	ca := clusterCA(c, f)
	owner := map[string]string{}
	var found []Finding
	for _, h := range asked(c, f) {
		seen, node := f.Hosts[h.Name], f.NodeName(h.Name)
		switch other, twice := owner[node]; {
		case twice:
			found = append(found, block(place(h), fmt.Sprintf("is node %s, as is %s: two entries are one machine", node, other),
				"remove one of the two from the cluster file"))
		case f.Cluster.Nodes[node].Name == "":
			found = append(found, block(place(h), fmt.Sprintf("is not a node of this cluster: its kubelet is %q, and there is no such Node", node),
				"remove the host from the cluster file, or join it first"))
		case ca != "" && seen.CA != "" && seen.CA != ca:
			found = append(found, block(place(h), "is not a node of this cluster: it trusts another cluster CA",
				"remove the host from the cluster file"))
		default:
			if d := f.doubtOf(h.Name); d.text != "" {
				found = append(found, Finding{Where: place(h), Block: d.fatal, Text: d.text,
					Fix: "see which machine the address in the cluster file leads to, and whether two were cloned from one disk; a machine-id or address that was changed on purpose is reported when the kubelet is restarted"})
			}
		}
		owner[node] = h.Name
	}
	return found
}

// machineIDsUnique looks for machines cloned from one disk: their machine-ids tell nobody which of them is which.
func machineIDsUnique(_ *config.Cluster, f Facts) []Finding {
	var found []Finding
	told := map[string]bool{"": true}
	for _, name := range sorted(f.Cluster.Nodes) {
		id := f.Cluster.Nodes[name].MachineID
		owners := f.nodesOfMachine(id)
		if !told[id] && len(owners) > 1 {
			found = append(found, warn(wholeCluster, fmt.Sprintf("nodes %s have one machine-id, %s", strings.Join(owners, ", "), id),
				"give each machine its own: empty /etc/machine-id, run systemd-machine-id-setup, and reboot"))
		}
		told[id] = true
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
			if there && b.Doubt != "" {
				found = append(found, block(place(h), fmt.Sprintf("whether %s belongs to a package could not be told: %s", b.Path, b.Doubt),
					"make the package manager answer"))
			}
		}
	}
	return found
}

// spare is what must stay free beside what is staged and installed.
const spare = 512 << 20

// diskSpace adds up what is needed on each file system: several of the paths usually share one.
func diskSpace(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		seen := f.Hosts[h.Name]
		need := roomNeeded(f, seen, waits(c, f, h) == "")
		want, free := map[string]int64{}, map[string]int64{}
		for _, d := range seen.Free {
			want[d.Mount] += need[d.Path]
			free[d.Mount] = d.Free
		}
		for _, dir := range sorted(seen.System.Disks) {
			if why := seen.System.Disks[dir].Err; why != "" && need[dir] > 0 {
				found = append(found, block(place(h), "how much is free below "+dir+" could not be told: "+why, "make df answer there"))
			}
		}
		for _, mount := range sorted(want) {
			if want[mount] > 0 && free[mount] < want[mount]+spare {
				found = append(found, block(place(h), fmt.Sprintf("the file system at %s has %s free, %s are needed", mount, mebibytes(free[mount]), mebibytes(want[mount]+spare)),
					"make room there"))
			}
		}
	}
	return found
}

// roomNeeded gives bytes by path, of the paths that the host was asked for. A host that waits gets no programs.
func roomNeeded(f Facts, h Host, moves bool) map[string]int64 {
	need := map[string]int64{}
	for _, a := range staging(f, h) {
		if moves && a.Images == nil && !h.Staged[a.stagedAt(f.Target)] {
			need["/var/lib"] += 2 * a.Size                    // staged, and the old one kept
			need[path.Dir(h.Binaries[a.Name].Path)] += a.Size // the new one beside the old for a moment
		}
	}
	_, images := missingImages(f, h)
	need["/var/lib/containerd"] += 3 * images // the archive, its layers, and those unpacked
	if h.Role == config.ControlPlane && needsControlPlane(f, h.Name) != "" {
		need["/etc/kubernetes"] = f.Cluster.Etcd.DBSize // kubeadm copies etcd's data there
	}
	return need
}

// kubeletAsInstalled looks for a kubelet that was put in place and is not the one that runs: whatever
// restarts it next, kubeadm itself may, would start it undrained and before its time.
func kubeletAsInstalled(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		installed, n := f.Hosts[h.Name].Binaries["kubelet"].Version, f.Node(h.Name)
		if n.Name != "" && n.Window == "" && installed != "" && installed != n.Kubelet {
			found = append(found, block(place(h), fmt.Sprintf("kubelet %s is installed, but %s runs", installed, n.Kubelet),
				"put the kubelet that runs back in place, or restart it on purpose"))
		}
	}
	return found
}

// noOtherKubeadm looks for a kubeadm that an earlier run to another target left at work.
func noOtherKubeadm(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		ours := set(kubeadmUnits(h.Role, f.Target))
		for _, unit := range f.Hosts[h.Name].Units {
			if !ours[unit] {
				found = append(found, block(place(h), "unit kuberung-"+unit+" of an earlier run is at work", "wait for its end, or run again with the target it has"))
			}
		}
	}
	return found
}
