package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"
)

// OpenSSHDefault as Config.SSHConfig stands for OpenSSH's own files.
const OpenSSHDefault = "default"

// askSSHLimit is how long `ssh -G` may take: a Match exec in the file may run anything.
const askSSHLimit = 15 * time.Second

// settings are what ssh_config(5) says of one host, by keyword in lower case.
type settings map[string][]string

func (s settings) one(keyword string) string {
	if len(s[keyword]) == 0 || strings.EqualFold(s[keyword][0], "none") {
		return ""
	}
	return s[keyword][0]
}

// complete fills what a configuration leaves open: from ssh_config if it names one, else with the defaults.
func (h *Host) complete(ctx context.Context, c Config) (Config, error) {
	h.everyAgentKey = len(c.KeyFiles) == 0
	if c.SSHConfig == "" {
		if len(c.KeyFiles) == 0 {
			c.KeyFiles = existing("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
		}
		if c.User == "" {
			return c, errors.New("no user is named to sign in as")
		}
		return c, nil
	}
	s, err := askSSH(ctx, c)
	if err != nil {
		return c, err
	}
	if s.one("identitiesonly") == "yes" {
		h.everyAgentKey = false
	}
	return s.fill(ctx, c)
}

// askSSH reads ssh_config for a host: by the ssh client itself, which alone understands all of it; without one, by a
// library that understands most of it.
func askSSH(ctx context.Context, c Config) (settings, error) {
	client, err := exec.LookPath("ssh")
	if err != nil {
		return readSSHConfig(c)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askSSHLimit, &limitError{askSSHLimit})
	defer cancel()
	args := []string{"-G"}
	if c.SSHConfig != OpenSSHDefault {
		args = append(args, "-F", c.SSHConfig)
	}
	if c.User != "" {
		args = append(args, "-l", c.User)
	}
	if c.Port != 0 {
		args = append(args, "-p", strconv.Itoa(c.Port))
	}
	cmd := exec.CommandContext(ctx, client, append(args, "--", c.Address)...)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ssh -G %s: %w: %s; ssh.config: none does without OpenSSH's configuration", c.Address, reason(ctx, err), lastWords(said.String(), 400))
	}
	return parseSettings(string(out)), nil
}

// parseSettings reads the output of ssh -G: a keyword and its value a line, some keywords on several lines.
func parseSettings(out string) settings {
	s := settings{}
	for line := range strings.Lines(out) {
		keyword, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && value != "" {
			s[keyword] = append(s[keyword], value)
		}
	}
	return s
}

// readKeywords are those that matter here; ssh_config must be asked for each.
var readKeywords = []string{
	"HostName", "User", "Port", "IdentityFile", "IdentitiesOnly", "IdentityAgent", "CertificateFile", "ProxyJump", "ProxyCommand",
	"UserKnownHostsFile", "GlobalKnownHostsFile", "HostKeyAlias",
}

// readSSHConfig is for a machine without an ssh client. It knows no Match canonical, final or exec, and says so.
func readSSHConfig(c Config) (settings, error) {
	file := c.SSHConfig
	if file == OpenSSHDefault {
		file = "~/.ssh/config"
	}
	path, err := expandHome(file)
	if err != nil {
		return nil, err
	}
	s := settings{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && c.SSHConfig == OpenSSHDefault {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	parsed, err := ssh_config.DecodeBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; install an ssh client, which understands all of it, or set ssh.config: none", path, err)
	}
	for _, keyword := range readKeywords {
		values, err := parsed.GetAll(c.Address, keyword)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(values) > 0 {
			s[strings.ToLower(keyword)] = values
		}
	}
	return s, nil
}

// fill puts what ssh_config says where the configuration says nothing.
func (s settings) fill(ctx context.Context, c Config) (Config, error) {
	name := c.Address
	if h := s.one("hostname"); h != "" {
		c.Address = strings.ReplaceAll(h, "%h", name)
	}
	if c.Port == 0 && s.one("port") != "" {
		port, err := strconv.ParseUint(s.one("port"), 10, 16)
		if err != nil {
			return c, fmt.Errorf("the port in the configuration of ssh: %w", err)
		}
		c.Port = int(port)
	}
	if c.User == "" {
		c.User = s.one("user")
	}
	if c.User == "" {
		me, err := user.Current()
		if err != nil {
			return c, fmt.Errorf("no user is named to sign in as, and who runs this is not known: %w", err)
		}
		c.User = me.Username
	}
	if c.HostKeyAlias == "" {
		c.HostKeyAlias = s.one("hostkeyalias")
	}
	if err := s.fillFiles(&c, name); err != nil {
		return c, err
	}
	if c.Jump == nil && c.Dial == nil {
		return c, s.fillJump(ctx, &c)
	}
	return c, nil
}

// fillFiles takes the names of files.
func (s settings) fillFiles(c *Config, name string) error {
	expand := tokens(*c, name)
	var err error
	if len(c.KeyFiles) == 0 && len(c.CertificateFiles) == 0 {
		if c.CertificateFiles, err = s.existing("certificatefile", expand); err != nil {
			return err
		}
	}
	if len(c.KeyFiles) == 0 {
		if c.KeyFiles, err = s.existing("identityfile", expand); err != nil {
			return err
		}
	}
	if c.Agent == "" {
		if c.Agent, err = agentSocket(s["identityagent"], expand); err != nil {
			return err
		}
	}
	if len(c.KnownHostsFiles) > 0 {
		return nil
	}
	return s.fillKnownHosts(c, expand)
}

// existing gives the files that a keyword names. Like ssh it passes over those that are not there.
func (s settings) existing(keyword string, expand func(string) (string, error)) ([]string, error) {
	var out []string
	for _, value := range s[keyword] {
		path, err := expand(strings.Trim(value, `"`))
		if err != nil {
			return nil, fmt.Errorf("%s in the configuration of ssh: %w", keyword, err)
		}
		if !strings.EqualFold(path, "none") {
			out = append(out, existing(path)...)
		}
	}
	return out, nil
}

// fillKnownHosts takes them whether they are there or not: the first is where a new key would be recorded.
func (s settings) fillKnownHosts(c *Config, expand func(string) (string, error)) error {
	for _, keyword := range []string{"userknownhostsfile", "globalknownhostsfile"} {
		for _, value := range s[keyword] {
			for _, w := range strings.Fields(value) {
				path, err := expand(strings.Trim(w, `"`))
				if err != nil {
					return fmt.Errorf("%s in the configuration of ssh: %w", keyword, err)
				}
				if !strings.EqualFold(path, "none") {
					c.KnownHostsFiles = append(c.KnownHostsFiles, path)
				}
			}
		}
	}
	return nil
}

// agentSocket is what IdentityAgent says: a path, "none", or the name of an environment variable.
func agentSocket(values []string, expand func(string) (string, error)) (string, error) {
	if len(values) == 0 || values[0] == "SSH_AUTH_SOCK" {
		return "", nil
	}
	if name, ok := strings.CutPrefix(values[0], "$"); ok && !strings.HasPrefix(name, "{") {
		return os.Getenv(name), nil
	}
	return expand(values[0])
}

// tokens gives the function that expands ~, %-tokens and ${VARIABLE} in the name of a file, as ssh_config(5) has them.
func tokens(c Config, name string) func(string) (string, error) {
	return func(path string) (string, error) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		values := map[byte]string{'%': "%", 'd': home, 'h': c.Address, 'n': name, 'r': c.User, 'p': strconv.Itoa(c.port()), 'k': c.HostKeyAlias}
		if c.HostKeyAlias == "" {
			values['k'] = name
		}
		if me, err := user.Current(); err == nil {
			values['u'], values['i'] = me.Username, me.Uid
		}
		if here, err := os.Hostname(); err == nil {
			values['l'] = here
			values['L'], _, _ = strings.Cut(here, ".")
		}
		out, err := expandTokens(path, values)
		if err != nil {
			return "", err
		}
		return expandHome(out)
	}
}

func expandTokens(path string, values map[byte]string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		rest := path[i:]
		switch {
		case strings.HasPrefix(rest, "${") && strings.Contains(rest, "}"):
			name, _, _ := strings.Cut(rest[2:], "}")
			value, ok := os.LookupEnv(name)
			if !ok {
				return "", fmt.Errorf("%s: there is no variable %s", path, name)
			}
			out.WriteString(value)
			i += len(name) + 2
		case path[i] == '%':
			i++
			if i == len(path) {
				return "", fmt.Errorf("%s: a %% at the end", path)
			}
			value, ok := values[path[i]]
			if !ok {
				return "", fmt.Errorf("%s: the token %%%c is not known here", path, path[i])
			}
			out.WriteString(value)
		default:
			out.WriteByte(path[i])
		}
	}
	return out.String(), nil
}

// existing keeps the files that are there.
func existing(files ...string) []string {
	var out []string
	for _, file := range files {
		path, err := expandHome(file)
		if err != nil {
			continue // without a home there is nothing in it
		}
		if exists(path) {
			out = append(out, filepath.Clean(path))
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fillJump takes the way that ssh would go. Each hop is reached as `ssh HOP` would reach it, except that a hop after
// the first is reached through the one before.
func (s settings) fillJump(ctx context.Context, c *Config) error {
	if command := s.one("proxycommand"); command != "" {
		return fmt.Errorf("the configuration of ssh has ProxyCommand %q for %s, which cannot be followed: use ProxyJump, or ssh.jump in the cluster file", shorten(command, 80), c.Address)
	}
	value := s.one("proxyjump")
	if value == "" {
		return nil
	}
	for text := range strings.SplitSeq(value, ",") {
		hop, err := ParseHop(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("ProxyJump %s in the configuration of ssh: %w", value, err)
		}
		hop.SSHConfig, hop.AcceptNew, hop.ConnectTimeout = c.SSHConfig, c.AcceptNew, c.ConnectTimeout
		c.Jump = append(c.Jump, hop)
	}
	return nil
}

// ParseHop reads a jump host as ssh's option -J has it: [user@]host[:port], an IPv6 address in brackets if a port follows.
func ParseHop(text string) (Config, error) {
	var c Config
	rest := strings.TrimPrefix(text, "ssh://")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		c.User, rest = rest[:i], rest[i+1:]
		if c.User == "" {
			return c, fmt.Errorf("%q: the user before @ is empty", text)
		}
	}
	c.Address = rest
	if host, port, err := net.SplitHostPort(rest); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return c, fmt.Errorf("%q: %q is no port", text, port)
		}
		c.Address, c.Port = host, int(n)
	}
	c.Address = strings.TrimSuffix(strings.TrimPrefix(c.Address, "["), "]")
	if c.Address == "" || strings.HasPrefix(c.Address, "-") || strings.ContainsAny(c.Address, " /@") {
		return c, fmt.Errorf("%q is not [user@]host[:port]", text)
	}
	return c, nil
}
