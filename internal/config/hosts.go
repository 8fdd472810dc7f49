package config

import (
	"fmt"
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v4"
)

// hosts reads the list of hosts and what must hold between them.
func (r *reader) hosts(to *[]Host, defaults *access) readValue {
	return func(n *yaml.Node, path string) {
		var items []*yaml.Node
		r.list(func(item *yaml.Node, path string) {
			items = append(items, item)
			*to = append(*to, r.host(item, path, *defaults))
		})(n, path)
		if list := resolve(n); len(items) == 0 && (list.Kind == yaml.SequenceNode || isNull(list)) {
			r.fail(n, "%s is empty: at least one %s is needed", path, ControlPlane)
			return
		}
		r.unique(*to, items)
		r.oneControlPlane(n, path, *to)
	}
}

func (r *reader) host(n *yaml.Node, path string, a access) Host {
	h := Host{At: r.at(n)}
	if isNull(n) {
		r.fail(n, "%s is empty: a host has a name, an address and a role", path)
		return h
	}
	given := r.object(n, path, []field{
		{"name", r.text(&h.Name, isName)},
		{"address", r.text(&h.Address, isAddress)},
		{"role", r.text(&h.Role, isRole)},
		{"ssh", r.ssh(&a)},
	})
	r.require(n, path, given, "name", "address", "role")
	h.SSH = a.settled()
	if h.SSH.User == "" && h.SSH.Config == "" && given != nil {
		r.fail(n, "%s.ssh.user is missing: with ssh.config none, set it here, or for all hosts under ssh at the top", path)
	}
	if a.knownHosts != nil && !h.SSH.AcceptNewHostKeys { // else it is made with the first key
		r.files = append(r.files, *a.knownHosts)
	}
	return h
}

func isRole(s string) string {
	if s != ControlPlane && s != Worker {
		return fmt.Sprintf("must be %s or %s, got %q", ControlPlane, Worker, s)
	}
	return ""
}

// unique refuses two hosts with one name, and two that SSH would reach as one machine. Hosts
// behind one forwarding address differ by their port, those of two private networks by the way there.
func (r *reader) unique(hosts []Host, nodes []*yaml.Node) {
	names, places := map[string]Host{}, map[string]Host{}
	for i, h := range hosts {
		if first, ok := names[strings.ToLower(h.Name)]; ok && h.Name != "" {
			r.fail(nodes[i], "hosts[%d].name %s is already the name of the host at %s", i, h.Name, first.At)
		}
		place := h.place()
		if first, ok := places[place]; ok && h.Address != "" {
			r.fail(nodes[i], "hosts[%d].address %s is already the address of %s at %s", i, h.Address, first.Name, first.At)
		}
		names[strings.ToLower(h.Name)], places[place] = h, h
	}
}

// canonical gives one spelling to all spellings of an address.
func canonical(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(address, "."))
}

// oneControlPlane wants a control plane. A host whose role could not be read may be it.
func (r *reader) oneControlPlane(n *yaml.Node, path string, hosts []Host) {
	for _, h := range hosts {
		if h.Role != Worker {
			return
		}
	}
	if len(hosts) > 0 {
		r.fail(n, "%s has no host with the role %s", path, ControlPlane)
	}
}
