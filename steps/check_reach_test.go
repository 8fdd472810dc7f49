package steps

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func TestNewHostKeys(t *testing.T) {
	finds{"recorded", func(_ *config.Cluster, f *Facts) {
		f.NewHostKeys = []string{"bastion: ssh-ed25519 SHA256:x, recorded in /home/ops/.ssh/known_hosts"}
	}, []string{"warn  | host-keys-known | known_hosts | was new: bastion: ssh-ed25519 SHA256:x, recorded in /home/ops/.ssh/known_hosts"}}.run(t)
}

func TestFixOfAHostThatCannotBeReached(t *testing.T) {
	through := func(kind error) error {
		hop := &hosts.ConnectError{Host: "bastion", Address: "b:22", Phase: "host key", Kind: kind, Err: kind}
		outer := &hosts.ConnectError{Host: "bastion-2", Address: "c:22", Phase: "jump host", Kind: kind, Err: hop}
		return &hosts.ConnectError{Host: "w-1", Address: "w:22", Phase: "jump host", Kind: kind, Err: outer}
	}
	sudo := "let the SSH user run any command with sudo, and set ssh.sudo: true; if sudo asks for a password, name a file with it under ssh.sudoPasswordFile"
	jump := " of the jump host bastion (ssh.jump, or ProxyJump in the file that ssh.config names)"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{hosts.ErrHostKeyUnknown, "if the key is the right one, record it; or set ssh.acceptNewHostKeys: true, and new keys are recorded at first sight"},
		{through(hosts.ErrHostKeyUnknown), "if the key" + jump + " is the right one, record it; or set ssh.acceptNewHostKeys: true, and new keys are recorded at first sight"},
		{hosts.ErrHostKeyChanged, "find out why the key changed; if the host was reinstalled, replace its line in known_hosts"},
		{through(hosts.ErrHostKeyChanged), "find out why the key" + jump + " changed; if the host was reinstalled, replace its line in known_hosts"},
		{hosts.ErrAuth, "check ssh.user and ssh.key in the cluster file against the host's authorized_keys"},
		{through(hosts.ErrAuth), "check the user and the key" + jump},
		{hosts.ErrNobody, "run it on a terminal, or name a file with the password under ssh.sudoPasswordFile"},
		{fmt.Errorf("%w: %w", hosts.ErrPassphrase, hosts.ErrNobody), "load the key into ssh-agent (ssh-add), or run it on a terminal and type its passphrase"},
		{hosts.ErrSSHConfig, "change that file, or set ssh.config: none and say in the cluster file how hosts are reached"},
		{fmt.Errorf("%w: %w", hosts.ErrSudo, hosts.ErrSudoPassword), "put the right password into the file that ssh.sudoPasswordFile names, or leave that out and type it"},
		{fmt.Errorf("%w: %w", hosts.ErrSudo, hosts.ErrSudoers), "let ops run any command with sudo: a line in the host's sudoers"},
		{hosts.ErrSudo, sudo},
		{hosts.ErrNotRoot, sudo},
		{hosts.ErrForwardingRefused, apiFix(hosts.ErrForwardingRefused)},
		{through(hosts.ErrForwardingRefused), "let sshd" + jump + " forward connections: AllowTcpForwarding yes"},
		{hosts.ErrUnreachable, "check the address in the cluster file, the host, and the network between"},
		{through(hosts.ErrUnreachable), "check the address" + jump + ", and the network between"},
		{errors.New("else"), "make the host answer as described, or take it out of the cluster first"},
	} {
		h := config.Host{SSH: config.SSH{User: "ops"}}
		if got := reachFix(h, fmt.Errorf("connect: %w", tt.err)); got != tt.want {
			t.Errorf("for %v got\n%q, want\n%q", tt.err, got, tt.want)
		}
	}
}

// What is wrong with a jump host is told once, for all hosts behind it.
func TestHostsBehindOneJumpHost(t *testing.T) {
	c := cluster(1, 2)
	f := seen(c, old)
	behind := func(host string) error {
		hop := &hosts.ConnectError{Host: "bastion", Address: "b:22", Phase: "tcp connect", Kind: hosts.ErrUnreachable, Err: errors.New("no route to host")}
		return &hosts.ConnectError{Host: host, Address: host + ":22", Phase: "jump host", Kind: hosts.ErrUnreachable, Err: hop}
	}
	for _, name := range []string{"cp-1", "w-2"} {
		f.Hosts[name] = Host{Name: name, Err: behind(name)}
	}
	f.Hosts["w-1"] = Host{Name: "w-1", Err: errors.New("else")}
	want := []string{
		"block |  | cp-1 (prod.yaml:5:5), w-2 | connect to cp-1: jump host: connect to bastion (b:22): tcp connect: no route to host",
		"block |  | w-1 (prod.yaml:6:5) | else",
	}
	if d := cmp.Diff(want, lines(hostReachable(c, f))); d != "" {
		t.Errorf("findings (-want +got):\n%s", d)
	}
}

func TestFixOfAnAPIThatDoesNotAnswer(t *testing.T) {
	tests := map[string]error{
		"one of three: let sshd on the hosts forward this user's connections (AllowTcpForwarding, PermitOpen, DisableForwarding in sshd_config); set ssh.tunnel: relay in the cluster file, which goes through a program on the host; or name a kubeconfig there, if the API servers can be reached from this machine": hosts.ErrForwardingRefused,
		"see whether /etc/kubernetes/admin.conf on the control planes is still valid: kubeadm certs check-expiration": apierrors.NewUnauthorized("expired"),
		"restore what is missing: kuberung moves clusters that kubeadm made and knows":                                apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "kubeadm-config"),
		"put the file back; kuberung signs in as kubeadm's admin does":                                                fs.ErrNotExist,
		"make an API server answer": errors.New("connection refused"),
	}
	for want, err := range tests {
		if got := apiFix(fmt.Errorf("list nodes: %w", err)); got != want {
			t.Errorf("for %v got %q, want %q", err, got, want)
		}
	}
}
