package steps

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
)

// A worker that skips a minor never runs that minor's `kubeadm upgrade node`. What it would have changed among the files
// of a node is listed here and done by us. That the last minor's kubeadm does the rest is read in its source,
// k8s.io/kubernetes@v1.36.3 (v1.37.2 does the same), in cmd/kubeadm/app:
//
//   - on a worker it has no version policy: cmd/phases/upgrade/node/preflight.go:52-58 looks for root, the system and
//     the runtime; the system is held against the minor after the installed kubelet's (preflight/checks.go:572-575).
//   - it takes nothing from the kubelet's old configuration: config.yaml is written anew from the ConfigMap, which the
//     control planes' climb has kept right, with the patches and instance-config.yaml over it
//     (phases/kubelet/config.go:47-78). The old one is only copied away (phases/upgrade/postupgrade.go:108-116).
//   - the other phases are for control planes, or have nothing to do (cmd/upgrade/node.go:118-123).
//
// An annotation that 1.34 to 1.36 take from the Node (kubeadm.alpha.kubernetes.io/cri-socket) is no longer read by 1.37.

// knownFrom and knownTo are the minors whose changes are listed: no other may be skipped.
const knownFrom, knownTo = 34, 37

// carried is what the kubeadm of one minor changes in a node's files, and no later one does. 1.34 and 1.37 have nothing
// of the kind: cmd/kubeadm/app/cmd/phases/upgrade/postupgrade.go:40-48 of v1.34.4, :51 of v1.37.2.
type carried struct {
	minor  int
	source string // in k8s.io/kubernetes
	flag   string // in kubeadm-flags.env, taken out
	to     string // file that gets its value, if there is none yet; empty: it goes for good
}

var carriedChanges = []carried{
	// A kubelet of 1.35 or later does not start with it.
	{35, "v1.35.4 cmd/kubeadm/app/cmd/phases/upgrade/postupgrade.go:48-56", "pod-infra-container-image", ""},
	// 1.34 and 1.35 do it as well. Without the file, 1.37 writes one that says what runtime it finds.
	{36, "v1.36.3 cmd/kubeadm/app/phases/upgrade/postupgrade.go:121-158", "container-runtime-endpoint", instanceConfig},
}

const (
	kubeadmFlags   = "/var/lib/kubelet/kubeadm-flags.env"
	instanceConfig = "/var/lib/kubelet/instance-config.yaml"
)

// needsCarry says which changes of skipped minors are not made yet. A kubelet that has arrived has skipped nothing.
func needsCarry(f Facts, host string) string {
	var why []string
	for _, c := range toCarry(f, host) {
		why = append(why, fmt.Sprintf("--%s is in kubeadm-flags.env, where v1.%d would have taken it out", c.flag, c.minor))
	}
	return strings.Join(why, ", ")
}

func toCarry(f Facts, host string) []carried {
	is, okIs := minorOf(f.Node(host).Kubelet)
	to, okTo := minorOf(f.Target)
	if !okIs || !okTo {
		return nil
	}
	h := f.Hosts[host]
	flags := h.System.Units["kubelet.service"].Files[kubeadmFlags].Text
	var found []carried
	for _, c := range carriedChanges {
		skipped := is < c.minor && c.minor < to
		if _, there := flagIn(flags, c.flag); skipped && there && !(c.to == instanceConfig && h.Instance) {
			found = append(found, c)
		}
	}
	return found
}

// CarryChanges makes the changes of the minors that a node skips. It comes before kubeadm, which reads one of the files,
// and keeps what was there.
func CarryChanges(s *Session, host string) engine.Step[Facts] {
	return step{
		Name:  "carry-changes",
		Does:  "change the kubelet's files as the skipped minors' kubeadm would have",
		Needs: func(f Facts) string { return needsCarry(f, host) },
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			for _, c := range toCarry(f, host) {
				if err := s.carry(ctx, host, path.Join(previousDir, f.Node(host).Kubelet), c); err != nil {
					return fmt.Errorf("carry --%s: %w", c.flag, err)
				}
				log("--%s is no longer in %s", c.flag, kubeadmFlags)
			}
			return nil
		},
	}
}

// carry makes one change. What takes over from the flag is written before the flag goes.
func (s *Session) carry(ctx context.Context, host, keep string, c carried) error {
	h := s.host(host)
	text, err := h.ReadFile(ctx, kubeadmFlags)
	if err != nil {
		return err
	}
	value, there := flagIn(string(text), c.flag)
	if !there {
		return nil
	}
	if c.to == instanceConfig {
		if err := h.WriteFile(ctx, c.to, fmt.Appendf(nil, "containerRuntimeEndpoint: %q\n", value), 0o644); err != nil {
			return err
		}
	}
	_, err = h.Script(ctx, hosts.Script{
		Text: `umask 077; mkdir -p "$2" && { [ -e "$2/kubeadm-flags.env" ] || cp -p "$1" "$2/kubeadm-flags.env"; }`,
		Args: []string{kubeadmFlags, keep}, Sudo: true,
	})
	if err != nil {
		return err
	}
	return h.WriteFile(ctx, kubeadmFlags, []byte(withoutFlag(string(text), c.flag)), 0o644)
}

// flagIn finds a flag in the text of kubeadm-flags.env, in the two ways in which it may be written. The last one counts.
func flagIn(text, name string) (value string, found bool) {
	words := strings.Fields(flagsOf(text))
	for i, word := range words {
		flag, v, with := strings.Cut(word, "=")
		if strings.TrimLeft(flag, "-") != name || !strings.HasPrefix(flag, "-") {
			continue
		}
		if !with && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			v = words[i+1]
		}
		value, found = v, true
	}
	return value, found
}

// withoutFlag takes a flag out and leaves every other word as it is. kubeadm would also rewrite what is not meant: to
// it, a flag without a value owns the next word.
func withoutFlag(text, name string) string {
	flags := flagsOf(text)
	if flags == "" {
		return text
	}
	words := strings.Fields(flags)
	var kept []string
	for i := 0; i < len(words); i++ {
		flag, _, with := strings.Cut(words[i], "=")
		if strings.TrimLeft(flag, "-") != name || !strings.HasPrefix(flag, "-") {
			kept = append(kept, words[i])
			continue
		}
		if !with && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
		}
	}
	return strings.Replace(text, flags, strings.Join(kept, " "), 1)
}

// flagsOf gives what KUBELET_KUBEADM_ARGS is set to, without its quotes.
func flagsOf(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "KUBELET_KUBEADM_ARGS="); ok {
			return strings.Trim(value, `"' `)
		}
	}
	return ""
}
