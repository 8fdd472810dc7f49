package steps

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// machineOf is a node with a machine-id and addresses, the first of them internal.
func nodeAt(name, machine string, addresses ...string) Node {
	return Node{Name: name, MachineID: machine, Addresses: addresses, Internal: addresses[:1], Ready: true, Kubelet: old}
}

func TestNodeName(t *testing.T) {
	nodes := map[string]Node{
		"node-a":           nodeAt("node-a", "m-a", "10.0.0.1", "203.0.113.1", "node-a"),
		"node-b":           nodeAt("node-b", "m-b", "2001:db8::b", "b.example.org"),
		"clone-1":          nodeAt("clone-1", "m-c", "10.0.0.8"),
		"clone-2":          nodeAt("clone-2", "m-c", "10.0.0.9"),
		"node.example.org": nodeAt("node.example.org", "m-d", "10.0.0.7"),
	}
	asked := func(name string) Host { return Host{NodeName: name} }
	lost := func(address string) Host { return Host{Address: address, Err: hosts.ErrUnreachable} }
	machine := func(id string) Host {
		return Host{Err: errors.New("no certificate"), System: hosts.Facts{MachineID: id}}
	}
	for _, tt := range []struct {
		name string
		host Host
		also Host // another host of the file
		want string
	}{
		{"its certificate", asked("node-a"), Host{}, "node-a"},
		{"its certificate in capitals", asked("Node.Example.ORG"), Host{}, "node.example.org"},
		{"a full name", asked("node.example.org"), Host{}, "node.example.org"},
		{"a short name is another one", asked("node"), Host{}, "node"},
		{"its certificate, though the address is another's", Host{NodeName: "node-a", Address: "10.0.0.7"}, Host{}, "node-a"},
		{"a stranger", asked("stranger"), Host{}, "stranger"},

		{"not asked, its address", lost("10.0.0.1"), Host{}, "node-a"},
		{"not asked, an outer address", lost("203.0.113.1"), Host{}, "node-a"},
		{"not asked, IPv6 spelt otherwise", lost("2001:0DB8:0::b"), Host{}, "node-b"},
		{"not asked, IPv4 in IPv6", lost("::ffff:10.0.0.1"), Host{}, "node-a"},
		{"not asked, its name in capitals", lost("B.Example.Org."), Host{}, "node-b"},
		{"not asked, an address of nobody", lost("10.9.9.9"), Host{}, ""},
		{"not asked, no address", lost(""), Host{}, ""},
		{"not asked, and another entry has the same address", lost("10.0.0.1"), lost("10.0.0.1"), ""},
		{"not asked, and another is that node", lost("10.0.0.1"), asked("Node-A"), ""},
		{"not asked, and another is another node", lost("10.0.0.1"), asked("node-b"), "node-a"},

		{"without a certificate, its machine-id", machine("m-b"), Host{}, "node-b"},
		{"without a certificate, a machine-id of two", machine("m-c"), Host{}, ""},
		{"without a certificate, a machine-id of another host as well", machine("m-b"), Host{NodeName: "x", System: hosts.Facts{MachineID: "m-b"}}, ""},
		{"nothing at all", Host{}, Host{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Facts{Hosts: map[string]Host{"h": tt.host, "also": tt.also}, Cluster: ClusterFacts{Nodes: nodes}}
			if got := f.NodeName("h"); got != tt.want {
				t.Errorf("it is %q, want %q", got, tt.want)
			}
			if got := f.Node("h"); got.Name != nodes[tt.want].Name {
				t.Errorf("its node is %+v", got)
			}
		})
	}
}

// Whatever the facts are, which node a host is does not hang on the order in which hosts and nodes come, and without
// certificates no two hosts are one node.
func TestNodeNameDoesNotDependOnOrder(t *testing.T) {
	pick := func(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		var hostNames, nodeNames []string
		all, nodes := map[string]Host{}, map[string]Node{}
		for i := range 1 + r.IntN(5) {
			name := fmt.Sprintf("h%d", i)
			hostNames = append(hostNames, name)
			h := Host{
				NodeName: pick(r, "", "", "n0", "n1", "N2"), Address: pick(r, "10.0.0.1", "10.0.0.2", "10.0.0.3", ""),
				System: hosts.Facts{MachineID: pick(r, "", "m0", "m1", "m2"), Addresses: []string{pick(r, "10.0.0.1", "10.0.0.2")}},
			}
			all[name] = h
		}
		for i := range r.IntN(4) {
			name := fmt.Sprintf("n%d", i)
			nodeNames = append(nodeNames, name)
			nodes[name] = nodeAt(name, pick(r, "", "m0", "m1", "m2"), pick(r, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
		}
		var first map[string]string
		for range 4 {
			r.Shuffle(len(hostNames), func(i, j int) { hostNames[i], hostNames[j] = hostNames[j], hostNames[i] })
			r.Shuffle(len(nodeNames), func(i, j int) { nodeNames[i], nodeNames[j] = nodeNames[j], nodeNames[i] })
			f := Facts{Hosts: map[string]Host{}, Cluster: ClusterFacts{Nodes: map[string]Node{}}}
			for _, name := range nodeNames {
				f.Cluster.Nodes[name] = nodes[name]
			}
			for _, name := range hostNames {
				f.Hosts[name] = all[name]
			}
			got := map[string]string{}
			for _, name := range hostNames {
				d := f.doubtOf(name)
				got[name] = f.NodeName(name) + " " + d.text
			}
			if first == nil {
				first = got
			}
			if d := cmp.Diff(first, got); d != "" {
				t.Fatalf("seed %d: another order, other names:\n%s", seed, d)
			}
			owner := map[string]string{}
			for _, name := range hostNames {
				node := f.NodeName(name)
				if other := owner[node]; node != "" && other != "" && (all[name].NodeName == "") != (all[other].NodeName == "") {
					t.Fatalf("seed %d: %s and %s are both %s: %+v", seed, name, other, node, all)
				}
				owner[node] = name
			}
		}
	}
}

func TestWitnessesOfAName(t *testing.T) {
	two := func(change func(h *Host, nodes map[string]Node)) func(*config.Cluster, *Facts) {
		return func(_ *config.Cluster, f *Facts) {
			for i, name := range []string{"cp-1", "cp-2", "w-1"} {
				n := f.Cluster.Nodes[nodeName(name)]
				n.MachineID, n.Internal, n.Addresses = fmt.Sprintf("m-%d", i), []string{n.Address}, []string{n.Address}
				f.Cluster.Nodes[n.Name] = n
				f.host(name, func(h *Host) {
					h.System.MachineID, h.System.Addresses = n.MachineID, []string{n.Address, "172.17.0.1"}
				})
			}
			f.host("w-1", func(h *Host) { change(h, f.Cluster.Nodes) })
		}
	}
	const at = "block | host-is-node | w-1 (prod.yaml:7:5) | signs in as node node-of-w-1, but "
	for _, tt := range []finds{
		{"all agree", two(func(*Host, map[string]Node) {}), nil},
		{"nothing but the certificate is known", two(func(h *Host, _ map[string]Node) { h.System.MachineID, h.System.Addresses = "", nil }), nil},
		{"the address of the file", two(func(h *Host, _ map[string]Node) {
			h.Address, h.System.Addresses = "10.0.0.3", []string{"192.168.0.3"}
		}), nil},
		{"IPv6 spelt otherwise", two(func(h *Host, nodes map[string]Node) {
			n := nodes[nodeName("w-1")]
			n.Internal = []string{"2001:DB8:0::3"}
			nodes[n.Name] = n
			h.System.Addresses = []string{"2001:db8::3"}
		}), nil},
		{"the address of another node", two(func(h *Host, _ map[string]Node) { h.System.Addresses = []string{"10.0.0.2"} }),
			[]string{at + "its address 10.0.0.2 is that of node node-of-cp-2"}},
		{"the machine-id of another node, and no address", two(func(h *Host, _ map[string]Node) { h.System.MachineID, h.System.Addresses = "m-1", nil }),
			[]string{at + "its machine-id m-1 is that of node node-of-cp-2"}},
		{"neither", two(func(h *Host, _ map[string]Node) { h.System.MachineID, h.System.Addresses = "m-9", []string{"10.9.9.9"} }),
			[]string{at + "has neither its address (10.0.0.3) nor its machine-id (m-2)"}},
		{"not the address", two(func(h *Host, _ map[string]Node) { h.System.Addresses = []string{"10.9.9.9"} }),
			[]string{at + "does not have its address 10.0.0.3"}},
		{"not the machine-id, but the address", two(func(h *Host, _ map[string]Node) { h.System.MachineID = "m-9" }),
			[]string{"warn  | host-is-node | w-1 (prod.yaml:7:5) | signs in as node node-of-w-1, but its machine-id is m-9, and the node reports m-2"}},
		{"not the machine-id, and no address is known", two(func(h *Host, _ map[string]Node) { h.System.MachineID, h.System.Addresses = "m-9", nil }),
			[]string{at + "its machine-id is m-9, and the node reports m-2"}},
		{"cloned machine-ids tell nothing", two(func(h *Host, nodes map[string]Node) {
			n := nodes[nodeName("w-1")]
			n.MachineID = "m-1"
			nodes[n.Name] = n
			h.System.MachineID = "m-1"
		}), []string{"warn  | machine-ids-unique | cluster | nodes node-of-cp-2, node-of-w-1 have one machine-id, m-1"}},
	} {
		tt.run(t)
	}
}

// A host that could not be asked is told by both its names, with what its node shows.
func TestLeftOfAHostThatCouldNotBeAsked(t *testing.T) {
	f := Facts{
		Hosts: map[string]Host{
			"worker-2": {Address: "10.0.0.2", Err: hosts.ErrUnreachable}, "worker-3": {Address: "10.0.0.9", Err: hosts.ErrUnreachable},
			"node-w4": {Address: "10.0.0.4", Err: hosts.ErrUnreachable}, "worker-5": {Address: "10.0.0.9"},
		},
		Cluster: ClusterFacts{Nodes: map[string]Node{"node-w2": nodeAt("node-w2", "", "10.0.0.2"), "node-w4": nodeAt("node-w4", "", "10.0.0.4")}},
	}
	n := f.Cluster.Nodes["node-w2"]
	n.Cordoned, n.Window = true, "cordoned"
	f.Cluster.Nodes["node-w2"] = n
	want := []string{
		"node-w4 could not be asked: kubelet v1.35.4",
		"worker-2 (node node-w2) could not be asked: kubelet v1.35.4, cordoned by kuberung and not released yet",
		"worker-3 could not be asked: which node it is, is not known",
		"worker-5: which node it is, is not known",
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(f.Hosts)) {
		got = append(got, f.leftOf(name))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}
