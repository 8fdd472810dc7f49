package steps

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
)

//go:embed install.sh
var installScript string

// previousDir keeps the programs that were replaced, by version: the way back needs no network.
const previousDir = "/var/lib/kuberung/previous"

// install replaces programs of a host by the staged ones.
func (s *Session) install(ctx context.Context, f Facts, host string, log engine.Logf, names ...string) error {
	h := f.Hosts[host]
	for _, name := range names {
		old, found := h.Binaries[name]
		art, have := f.Artifacts.Binary(h.Arch, name)
		if !found || !have {
			continue
		}
		from := old.Version
		if from == "" {
			from = "unknown"
		}
		_, err := s.host(host).Script(ctx, hosts.Script{
			Text: installScript, Sudo: true, Timeout: 5 * time.Minute,
			Args: []string{art.stagedAt(f.Target), art.SHA256, old.Path, path.Join(previousDir, from)},
		})
		if err != nil {
			return fmt.Errorf("install %s: %w", old.Path, err)
		}
		log("%s replaced, %s is kept in %s", old.Path, from, path.Join(previousDir, from))
	}
	return nil
}

// InstallKubeadm puts the target's kubeadm on a host where it has something to do.
func InstallKubeadm(s *Session, host string, todo func(Facts, string) string) engine.Step[Facts] {
	return step{
		Name: "install-kubeadm",
		Does: "replace kubeadm",
		Needs: func(f Facts) string {
			return needsKubeadm(f, host, todo(f, host))
		},
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			return s.install(ctx, f, host, log, "kubeadm")
		},
	}
}

// InstallKubelet puts the target's kubelet, kubectl and crictl on a host. The running kubelet is
// not touched by it. The kubelet comes last: its version tells whether there is something to do, so it must not say
// "done" of an installation that was cut off before the others.
func InstallKubelet(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "install-kubelet",
		Does:  "replace kubelet, kubectl and crictl",
		Needs: func(f Facts) string { return needsKubelet(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			return s.install(ctx, f, host, log, "crictl", "kubectl", "kubelet")
		},
	}
}
