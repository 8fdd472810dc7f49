package steps

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A host has four names: that in the cluster file, its hostname, its addresses, and that of its node. This file is the
// one way from the first to the last. The hostname is never asked: it may be longer, shorter, in capitals, or
// overridden altogether.

// NodeName gives the name of the node that a host, by its name in the cluster file, is; "" if nothing tells. A host that
// was asked is the node that its kubelet signs in as; whether that may be true is for [hostIsNode]. For one that could
// not be asked the address in the cluster file tells, so that what is said of it names the node.
func (f Facts) NodeName(host string) string {
	h := f.Hosts[host]
	if h.NodeName != "" {
		return f.spelt(h.NodeName)
	}
	if name := f.onlyNode(func(n Node) bool { return h.System.MachineID != "" && n.MachineID == h.System.MachineID }); name != "" {
		return f.unclaimed(host, name, func(o Host) bool { return o.System.MachineID == h.System.MachineID })
	}
	if h.Address == "" {
		return ""
	}
	name := f.onlyNode(func(n Node) bool { return hasAddress(n.Addresses, h.Address) })
	return f.unclaimed(host, name, func(o Host) bool { return sameAddress(o.Address, h.Address) })
}

// Node gives the node of a host, by its name in the cluster file.
func (f Facts) Node(host string) Node { return f.Cluster.Nodes[f.NodeName(host)] }

// called gives a host the names by which people know it: "worker-2 (node node-w2)".
func (f Facts) called(host string) string {
	if node := f.NodeName(host); node != "" && node != host {
		return host + " (node " + node + ")"
	}
	return host
}

// spelt gives a node's name as the cluster spells it: Kubernetes has no capitals in it, certificates may.
func (f Facts) spelt(name string) string {
	if _, exact := f.Cluster.Nodes[name]; exact {
		return name
	}
	if lower := strings.ToLower(name); f.Cluster.Nodes[lower].Name != "" {
		return lower
	}
	return name
}

// onlyNode gives the one node that fits; "" if none does, or several.
func (f Facts) onlyNode(fits func(Node) bool) string {
	found := ""
	for name, n := range f.Cluster.Nodes {
		if !fits(n) {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// unclaimed gives a node's name unless another host has as good a claim to it: the same mark, or its own kubelet.
func (f Facts) unclaimed(host, node string, same func(Host) bool) string {
	for name, o := range f.Hosts {
		if name != host && (same(o) || o.NodeName != "" && f.spelt(o.NodeName) == node) {
			return ""
		}
	}
	return node
}

func hasAddress(all []string, address string) bool {
	return slices.ContainsFunc(all, func(a string) bool { return sameAddress(a, address) })
}

// sameAddress compares IP addresses however they are spelt, and names without regard to case.
func sameAddress(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	if errX == nil && errY == nil {
		return x.Unmap() == y.Unmap()
	}
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// doubt is what speaks against a host being the node that its kubelet signs in as.
type doubt struct {
	text  string
	fatal bool // false: something else confirms the name
}

// doubtOf compares the name in a host's certificate with two other witnesses, its machine-id and its addresses. A
// machine-id that several nodes have is no witness. An address is the better one: machine-ids are copied with disks.
func (f Facts) doubtOf(host string) doubt {
	h, n := f.Hosts[host], f.Node(host)
	claim := "signs in as node " + n.Name
	machine, address := f.machineSays(h, n), f.addressesSay(h, n)
	switch {
	case n.Name == "":
		return doubt{} // told elsewhere
	case address.other != "":
		return doubt{fmt.Sprintf("%s, but its address %s is that of node %s", claim, address.seen, address.other), true}
	case machine.other != "":
		return doubt{fmt.Sprintf("%s, but its machine-id %s is that of node %s", claim, machine.seen, machine.other), !address.confirms}
	case address.denies && machine.denies:
		return doubt{fmt.Sprintf("%s, but has neither its address (%s) nor its machine-id (%s)", claim, address.want, machine.want), true}
	case address.denies:
		return doubt{fmt.Sprintf("%s, but does not have its address %s", claim, address.want), true}
	case machine.denies:
		return doubt{fmt.Sprintf("%s, but its machine-id is %s, and the node reports %s", claim, machine.seen, machine.want), !address.confirms}
	}
	return doubt{}
}

// testimony is what one witness says of a host's claim to a node. Without any of it the witness knows nothing.
type testimony struct {
	confirms, denies bool
	other            string // the node that it names instead
	seen, want       string // on the host, and of the claimed node
}

func (f Facts) machineSays(h Host, n Node) testimony {
	t := testimony{seen: h.System.MachineID, want: n.MachineID}
	if t.seen == "" || t.want == "" {
		return t
	}
	owners := f.nodesOfMachine(t.seen)
	t.confirms = t.seen == t.want && len(owners) == 1
	t.denies = t.seen != t.want
	if t.denies && len(owners) == 1 {
		t.other = owners[0]
	}
	return t
}

func (f Facts) nodesOfMachine(id string) []string {
	var names []string
	for _, name := range sorted(f.Cluster.Nodes) {
		if f.Cluster.Nodes[name].MachineID == id {
			names = append(names, name)
		}
	}
	return names
}

func (f Facts) addressesSay(h Host, n Node) testimony {
	t := testimony{want: strings.Join(n.Internal, ", ")}
	if len(n.Internal) == 0 {
		return t
	}
	has := func(a string) bool { return hasAddress(h.System.Addresses, a) }
	if slices.ContainsFunc(n.Internal, has) || hasAddress(n.Internal, h.Address) {
		t.confirms = true
		return t
	}
	t.denies = len(h.System.Addresses) > 0
	for _, name := range sorted(f.Cluster.Nodes) {
		if i := slices.IndexFunc(f.Cluster.Nodes[name].Internal, has); i >= 0 && name != n.Name {
			t.other, t.seen = name, f.Cluster.Nodes[name].Internal[i]
			break
		}
	}
	return t
}
