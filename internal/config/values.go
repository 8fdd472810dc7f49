package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// check looks at a text and completes the sentence "<key> …" when it is wrong; "" means it is fine.
type check func(string) string

// text reads a string that is not empty.
func (r *reader) text(to *string, checks ...check) readValue {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			hint := ""
			if n.Kind == yaml.ScalarNode && !isNull(n) {
				hint = "; put it in quotes if it is meant as text"
			}
			r.fail(n, "%s must be text, got %s%s", path, describe(n), hint)
			return
		}
		if n.Value == "" {
			r.fail(n, "%s must not be empty", path)
			return
		}
		for _, c := range checks {
			if problem := c(n.Value); problem != "" {
				r.fail(n, "%s %s", path, problem)
				return
			}
		}
		*to = n.Value
	}
}

// texts reads a list of strings.
func (r *reader) texts(to *[]string, checks ...check) readValue {
	return r.list(func(n *yaml.Node, path string) {
		var one string
		if r.text(&one, checks...)(n, path); one != "" {
			*to = append(*to, one)
		}
	})
}

// number reads a whole number between low and high.
func (r *reader) number(to *int, low, high int) readValue {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
			r.fail(n, "%s must be a whole number, got %s", path, describe(n))
			return
		}
		switch {
		case v < low:
			r.fail(n, "%s must be at least %d, got %d", path, low, v)
		case v > high:
			r.fail(n, "%s must be at most %d, got %d", path, high, v)
		default:
			*to = v
		}
	}
}

// flag reads true or false.
func (r *reader) flag(to *bool) readValue {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		v, err := strconv.ParseBool(strings.ToLower(n.Value))
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || err != nil {
			r.fail(n, "%s must be true or false, got %s", path, describe(n))
			return
		}
		*to = v
	}
}

// duration reads a length of time in Go's notation, which needs a unit.
func (r *reader) duration(to *time.Duration) readValue {
	return func(n *yaml.Node, path string) {
		n = resolve(n)
		v, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || err != nil {
			r.fail(n, "%s must be a duration such as 90s, 10m or 1h30m, got %s", path, describe(n))
			return
		}
		if v <= 0 {
			r.fail(n, "%s must be longer than nothing, got %s", path, n.Value)
			return
		}
		*to = v
	}
}

var (
	full = regexp.MustCompile(`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$`)
	half = regexp.MustCompile(`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
)

// fullVersion gives s as "v1.36.3", or completes the sentence "<key> …" when it is no full version.
func fullVersion(s string) (version, problem string) {
	switch {
	case full.MatchString(s):
		return "v" + strings.TrimPrefix(s, "v"), ""
	case half.MatchString(s):
		return "", fmt.Sprintf("must be a full version such as v1.36.3, got %s without a patch release", s)
	}
	return "", fmt.Sprintf("must be a version such as v1.36.3, got %q", s)
}

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// isName holds for what can stand in a file name, a log line and a command without quoting.
func isName(s string) string {
	if !fileName.MatchString(s) {
		return fmt.Sprintf("must be letters, digits, dots, dashes and underscores, got %q", s)
	}
	return ""
}

var (
	dnsLabel  = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	justDots  = regexp.MustCompile(`^[0-9.]+$`)
	podName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	checkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
)

// isAddress holds for an IPv4 or IPv6 address and for a DNS name, or a name like one in an ssh_config: those may have
// underscores.
func isAddress(s string) string {
	if _, err := netip.ParseAddr(s); err == nil {
		return ""
	}
	if _, err := netip.ParseAddrPort(s); err == nil {
		return fmt.Sprintf("must not contain a port, set ssh.port, got %q", s)
	}
	if strings.HasPrefix(s, "[") {
		return fmt.Sprintf("must be an IPv6 address without brackets, got %q", s)
	}
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	for _, l := range labels {
		if !dnsLabel.MatchString(l) || justDots.MatchString(s) || len(s) > 253 {
			return fmt.Sprintf("must be an IP address or a DNS name, got %q", s)
		}
	}
	return ""
}

// isConsent holds for "namespace/name" and for "*".
func isConsent(s string) string {
	if s != "*" && !podName.MatchString(s) {
		return fmt.Sprintf(`must be a pod as namespace/name, or "*" for all, got %q`, s)
	}
	return ""
}

// isPreflightCheck holds for the name of one of kubeadm's checks. All of them at once would hide
// what nobody has thought of, so that is refused.
func isPreflightCheck(s string) string {
	if strings.EqualFold(s, "all") {
		return "must name single checks: ignoring all would hide the ones you do not expect"
	}
	if !checkName.MatchString(s) {
		return fmt.Sprintf("must be the name of a preflight check, such as Swap, got %q", s)
	}
	return ""
}

// isClimb holds for a way of workers over several minors.
func isClimb(s string) string {
	if s != EachRung && s != Once {
		return fmt.Sprintf("must be %s or %s, got %q", EachRung, Once, s)
	}
	return ""
}

// isHostPath holds for an absolute path on a host.
func isHostPath(s string) string {
	if !strings.HasPrefix(s, "/") {
		return fmt.Sprintf("must be an absolute path on the hosts, got %q", s)
	}
	return ""
}

// path reads a local path, made absolute.
func (r *reader) path(to *string) readValue {
	return func(n *yaml.Node, path string) {
		var s string
		if r.text(&s)(n, path); s == "" {
			return
		}
		switch {
		case s == "~" || strings.HasPrefix(s, "~/"):
			if r.home == "" {
				r.fail(n, "%s starts with ~, but the home directory is not known: HOME is not set", path)
				return
			}
			s = filepath.Join(r.home, s[1:])
		case strings.HasPrefix(s, "~"):
			r.fail(n, "%s: the home directory of another user (%s) is not looked up, write the path out", path, s)
			return
		case !filepath.IsAbs(s):
			s = filepath.Join(r.dir, s)
		}
		*to = filepath.Clean(s)
	}
}
