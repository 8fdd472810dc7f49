package steps

import (
	"errors"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func hostReachable(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range c.Hosts {
		err := f.Hosts[h.Name].Err
		if err == nil {
			continue
		}
		text := err.Error()
		if n := f.Node(h.Name); n.Cordoned {
			text += "; node " + n.Name + ", which it is, is cordoned"
		}
		found = append(found, block(place(h), text, reachFix(h, err)))
	}
	return found
}

// hostKeysKnown tells of host keys that this run has taken on trust, as the cluster file asked for.
func hostKeysKnown(_ *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, key := range f.NewHostKeys {
		found = append(found, warn("known_hosts", "was new: "+key,
			"compare it with ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub on the host's console; from now on another key is refused"))
	}
	return found
}

// reachFix says what to do about a host that could not be asked, in the words of the cluster file.
func reachFix(h config.Host, err error) string {
	where := ""
	if jump := throughJump(err); jump != "" {
		where = " of the jump host " + jump + " (ssh.jump, or ProxyJump in the file that ssh.config names)"
	}
	switch {
	case errors.Is(err, hosts.ErrNobody):
		return "run it on a terminal, load the key into ssh-agent, or name a file under ssh.sudoPasswordFile if it is sudo's password that is asked for"
	case errors.Is(err, hosts.ErrSudoPassword):
		return "put the right password into the file that ssh.sudoPasswordFile names, or leave that out and type it"
	case errors.Is(err, hosts.ErrSudoers):
		return "let " + userOf(h) + " run any command with sudo: a line in the host's sudoers"
	case errors.Is(err, hosts.ErrHostKeyUnknown):
		return "compare the fingerprint with " + of("console", where) + ", then add its key to known_hosts, or set ssh.acceptNewHostKeys: true to record new keys at first sight"
	case errors.Is(err, hosts.ErrHostKeyChanged):
		return "find out why the key" + where + " changed; if the host was reinstalled, replace its line in known_hosts"
	case errors.Is(err, hosts.ErrForwardingRefused) && where != "":
		return "let sshd" + where + " forward connections: AllowTcpForwarding yes"
	case errors.Is(err, hosts.ErrForwardingRefused):
		return apiFix(err)
	case errors.Is(err, hosts.ErrAuth):
		return "check ssh.user and ssh.key in the cluster file against " + of("authorized_keys", where)
	case errors.Is(err, hosts.ErrSudo), errors.Is(err, hosts.ErrNotRoot):
		return "let the SSH user run any command with sudo, and set ssh.sudo: true; if sudo asks for a password, name a file with it under ssh.sudoPasswordFile"
	case errors.Is(err, hosts.ErrUnreachable) && where != "":
		return "check the address" + where + ", and the network between"
	case errors.Is(err, hosts.ErrUnreachable):
		return "check the address in the cluster file, the host, and the network between"
	}
	return "make the host answer as described, or take it out of the cluster first"
}

// throughJump names the jump host at which a connection failed; "" if it was the host itself.
func throughJump(err error) string {
	var outer, inner *hosts.ConnectError
	if errors.As(err, &outer) && errors.As(outer.Err, &inner) {
		if deeper := throughJump(outer.Err); deeper != "" {
			return deeper
		}
		return inner.Host
	}
	return ""
}

func of(what, jump string) string {
	if jump == "" {
		return "the host's " + what
	}
	return "the " + what + jump
}

func userOf(h config.Host) string {
	if h.SSH.User == "" {
		return "the SSH user"
	}
	return h.SSH.User
}
