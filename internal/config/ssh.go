package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// access is SSH while it is being read.
type access struct {
	SSH
	sudo       *bool    // nil until somebody says
	knownHosts *fileUse // where KnownHosts was said
}

func (r *reader) ssh(a *access) readValue {
	return func(n *yaml.Node, path string) {
		given := r.object(n, path, []field{
			{"user", r.text(&a.User, isName)},
			{"port", r.number(&a.Port, 1, 65535)},
			{"key", r.localFile(&a.Key, exists)},
			{"certificate", r.localFile(&a.Certificate, exists)},
			{"knownHosts", r.knownHosts(a)},
			{"acceptNewHostKeys", r.flag(&a.AcceptNewHostKeys)},
			{"config", r.sshConfig(&a.Config)},
			{"jump", r.jump(&a.Jump)},
			{"sudo", r.sudo(a)},
			{"sudoPasswordFile", r.localFile(&a.SudoPasswordFile, isSecret)},
			{"tunnel", r.text(&a.Tunnel, isTunnel)},
		})
		if given["sudo"] && given["sudoPasswordFile"] && !*a.sudo {
			r.fail(n, "%s.sudoPasswordFile has no use with sudo: false", path)
		}
	}
}

// settled gives a with the defaults that depend on other values.
func (a access) settled() SSH {
	s := a.SSH
	s.Sudo = s.User != "root"
	if a.sudo != nil {
		s.Sudo = *a.sudo
	}
	return s
}

func (r *reader) sudo(a *access) readValue {
	return func(n *yaml.Node, path string) {
		sudo := true
		r.flag(&sudo)(n, path)
		a.sudo = &sudo
	}
}

// knownHosts is looked at once it is known whether it may be missing.
func (r *reader) knownHosts(a *access) readValue {
	return func(n *yaml.Node, path string) {
		if r.path(&a.KnownHosts)(n, path); a.KnownHosts != "" {
			a.knownHosts = &fileUse{path: a.KnownHosts, key: path, at: r.at(n), ok: exists}
		}
	}
}

// sshConfig reads a path, or one of the words that stand for OpenSSH's own files and for no file.
func (r *reader) sshConfig(to *string) readValue {
	return func(n *yaml.Node, path string) {
		switch resolve(n).Value {
		case "none":
			*to = ""
		case DefaultConfig:
			*to = DefaultConfig
		default:
			r.localFile(to, exists)(n, path)
		}
	}
}

func isTunnel(s string) string {
	if s != Forward && s != Relay {
		return fmt.Sprintf("must be %s or %s, got %q", Forward, Relay, s)
	}
	return ""
}

// jump reads the way to a host. A list that is given replaces the one before, even when it is empty.
func (r *reader) jump(to *[]Hop) readValue {
	return func(n *yaml.Node, path string) {
		list := resolve(n)
		if list.Kind == yaml.ScalarNode && list.ShortTag() == "!!str" {
			r.fail(n, "%s must be a list, got %s; write [%s]", path, describe(list), list.Value)
			return
		}
		hops := []Hop{}
		r.list(func(item *yaml.Node, path string) {
			var text string
			if r.text(&text)(item, path); text == "" {
				return
			}
			hop, problem := parseHop(text)
			if problem != "" {
				r.fail(item, "%s %s", path, problem)
			}
			hops = append(hops, hop)
		})(n, path)
		if list.Kind == yaml.SequenceNode {
			*to = hops
		}
	}
}

// parseHop gives the parts of [user@]host[:port], or completes the sentence "<key> …" when that is not what s is.
func parseHop(s string) (hop Hop, problem string) {
	wrong := func(why string) (Hop, string) {
		return Hop{}, fmt.Sprintf("must be [user@]host[:port], with an IPv6 address in brackets, got %q%s", s, why)
	}
	rest := s
	if at := strings.LastIndex(s, "@"); at >= 0 {
		hop.User, rest = s[:at], s[at+1:]
		if problem := isName(hop.User); problem != "" {
			return wrong(": the user " + problem)
		}
	}
	host, port, found := cutPort(rest)
	if found {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return wrong(": the port must be a number from 1 to 65535")
		}
		hop.Port = int(n)
	}
	hop.Address = host
	if isAddress(host) != "" || strings.Contains(host, ":") && !strings.HasPrefix(rest, "[") {
		return wrong("")
	}
	return hop, ""
}

// cutPort cuts "host:port" and "[address]:port". What has several colons and no brackets is left whole.
func cutPort(s string) (host, port string, found bool) {
	if inside, ok := strings.CutPrefix(s, "["); ok {
		host, after, closed := strings.Cut(inside, "]")
		port, found = strings.CutPrefix(after, ":")
		if !closed || !found && after != "" {
			return s, "", false
		}
		return host, port, found
	}
	if strings.Count(s, ":") > 1 {
		return s, "", false
	}
	return strings.Cut(s, ":")
}

// place is what SSH reaches as one machine: an address and a port, as seen from the last of the hops. A port that is
// not given counts as 22: two hosts of one address must say how they differ.
func (h Host) place() string {
	var b strings.Builder
	for _, hop := range append(slices.Clone(h.SSH.Jump), Hop{Address: h.Address, Port: h.SSH.Port}) {
		port := hop.Port
		if port == 0 {
			port = 22
		}
		fmt.Fprintf(&b, "%s port %d, ", canonical(hop.Address), port)
	}
	return b.String()
}
