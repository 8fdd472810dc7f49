package steps

import (
	"errors"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// hostReachable tells once what is wrong with a jump host, for all hosts behind it.
func hostReachable(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	behind := map[string]int{} // by what is wrong with the jump host: the finding that tells it
	for _, h := range c.Hosts {
		err := f.Hosts[h.Name].Err
		if err == nil {
			continue
		}
		text := err.Error()
		if jump := jumpError(err); jump != nil {
			if at, told := behind[jump.Error()]; told {
				found[at].Where += ", " + h.Name
				continue
			}
			behind[jump.Error()] = len(found)
		}
		if n := f.Node(h.Name); n.Cordoned {
			text += "; node " + n.Name + ", which it is, is cordoned"
		}
		found = append(found, block(place(h), text, reachFix(h, err)))
	}
	return found
}

// jumpError is the error of the jump host at which a connection failed; nil if it was the host itself.
func jumpError(err error) *hosts.ConnectError {
	var outer, inner *hosts.ConnectError
	if !errors.As(err, &outer) || !errors.As(outer.Err, &inner) {
		return nil
	}
	if deeper := jumpError(outer.Err); deeper != nil {
		return deeper
	}
	return inner
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
	if jump := jumpError(err); jump != nil {
		where = " of the jump host " + jump.Host + " (ssh.jump, or ProxyJump in the file that ssh.config names)"
	}
	switch {
	case errors.Is(err, hosts.ErrPassphrase):
		return "load the key into ssh-agent (ssh-add), or run it on a terminal and type its passphrase"
	case errors.Is(err, hosts.ErrNobody):
		return "run it on a terminal, or name a file with the password under ssh.sudoPasswordFile"
	case errors.Is(err, hosts.ErrSSHConfig):
		return "change that file, or set ssh.config: none and say in the cluster file how hosts are reached"
	case errors.Is(err, hosts.ErrSudoPassword):
		return "put the right password into the file that ssh.sudoPasswordFile names, or leave that out and type it"
	case errors.Is(err, hosts.ErrSudoers):
		return "let " + userOf(h) + " run any command with sudo: a line in the host's sudoers"
	case errors.Is(err, hosts.ErrHostKeyUnknown):
		return "if the key" + where + " is the right one, record it; or set ssh.acceptNewHostKeys: true, and new keys are recorded at first sight"
	case errors.Is(err, hosts.ErrHostKeyChanged):
		return "find out why the key" + where + " changed; if the host was reinstalled, replace its line in known_hosts"
	case errors.Is(err, hosts.ErrForwardingRefused) && where != "":
		return "let sshd" + where + " forward connections: AllowTcpForwarding yes"
	case errors.Is(err, hosts.ErrForwardingRefused):
		return apiFix(err)
	case errors.Is(err, hosts.ErrAuth) && where != "":
		return "check the user and the key" + where
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
