package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"
)

// access is SSH while it is being read.
type access struct {
	SSH
	sudo *bool // nil until somebody says
}

// settled gives a with the defaults that depend on other values.
func (a access) settled(home string) SSH {
	s := a.SSH
	s.Sudo = s.User != "root"
	if a.sudo != nil {
		s.Sudo = *a.sudo
	}
	if s.KnownHosts == "" && home != "" {
		s.KnownHosts = filepath.Join(home, ".ssh", "known_hosts")
	}
	return s
}

func (r *reader) ssh(a *access) readValue {
	return r.section(
		field{"user", r.text(&a.User, isName)},
		field{"port", r.number(&a.Port, 1, 65535)},
		field{"key", r.localFile(&a.Key)},
		field{"knownHosts", r.localFile(&a.KnownHosts)},
		field{"sudo", func(n *yaml.Node, path string) {
			var sudo bool
			r.flag(&sudo)(n, path)
			a.sudo = &sudo
		}},
	)
}

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
	if a.User == "" && given != nil {
		r.fail(n, "%s.ssh.user is missing: set it here, or for all hosts under ssh at the top", path)
	}
	h.SSH = a.settled(r.home)
	switch {
	case h.SSH.KnownHosts == "":
		r.fail(n, "%s.ssh.knownHosts is missing, and its default is not known: HOME is not set", path)
	case a.KnownHosts == "":
		r.files = append(r.files, fileUse{h.SSH.KnownHosts, "ssh.knownHosts (the default)", h.At})
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
// behind one forwarding address differ by their port.
func (r *reader) unique(hosts []Host, nodes []*yaml.Node) {
	names, places := map[string]Host{}, map[string]Host{}
	for i, h := range hosts {
		if first, ok := names[strings.ToLower(h.Name)]; ok && h.Name != "" {
			r.fail(nodes[i], "hosts[%d].name %s is already the name of the host at %s", i, h.Name, first.At)
		}
		place := fmt.Sprintf("%s port %d", canonical(h.Address), h.SSH.Port)
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

// fileUse is a local file that the cluster file counts on.
type fileUse struct {
	path string
	key  string
	at   Position
}

// localFile reads a path that checkFiles will look at.
func (r *reader) localFile(to *string) readValue {
	return func(n *yaml.Node, path string) {
		var file string
		if r.path(&file)(n, path); file != "" {
			*to = file
			r.files = append(r.files, fileUse{file, path, r.at(n)})
		}
	}
}

// checkFiles complains about local files that are not there, each path once.
func (r *reader) checkFiles() {
	seen := map[string]bool{}
	for _, f := range r.files {
		if seen[f.path] {
			continue
		}
		seen[f.path] = true
		info, err := os.Stat(f.path)
		switch {
		case os.IsNotExist(err):
			r.errs = append(r.errs, Error{f.at, fmt.Sprintf("%s: there is no file %s", f.key, f.path)})
		case err != nil:
			r.errs = append(r.errs, Error{f.at, fmt.Sprintf("%s: %v", f.key, err)})
		case info.IsDir():
			r.errs = append(r.errs, Error{f.at, fmt.Sprintf("%s: %s is a directory", f.key, f.path)})
		}
	}
}
