package steps

import (
	"strings"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// Rung is one minor, or one patch move, of a climb: what is done to get there.
type Rung struct {
	From, To string // From is what kubeadm-config says before it
	Plan     engine.Plan[Facts]
	Facts    Facts // what the plan was made from: observed for the first rung, predicted for the others
	Waiting  []Waiting
}

// Waiting is a host that a rung leaves alone, and why.
type Waiting struct {
	Host string `json:"host"`
	Why  string `json:"why"`
}

// Climb gives the way from what was observed to the target of the cluster file, rung by rung. The first is planned from
// the facts as they are, each other one from the facts as they will be. It is pure, and ends before a rung for which
// there is nothing to install: Check has said so. A cluster that has arrived has no rungs.
func Climb(c *config.Cluster, f Facts, s *Session) []Rung {
	var rungs []Rung
	for i, h := range way(c, f) {
		if h.version == "" {
			break
		}
		if i > 0 {
			f = f.at(h.version)
		}
		p := Plan(c, f, s)
		if len(p) > 0 {
			rungs = append(rungs, Rung{f.Cluster.KubeadmVersion, f.Target, p, f, waiting(c, f, p)})
		}
		f = after(c, f, p)
	}
	return rungs
}

// waiting lists the hosts that a plan leaves alone or only brings files to.
func waiting(c *config.Cluster, f Facts, p plan) []Waiting {
	touched := map[string]bool{}
	for _, st := range p {
		for _, l := range st.Lanes {
			touched[l.Target] = touched[l.Target] || st.Name != "stage"
		}
	}
	var found []Waiting
	for _, h := range c.Hosts {
		if touched[h.Name] {
			continue
		}
		why := waits(c, f, h)
		if why == "" {
			why = "everything on it is at " + f.Target
		}
		found = append(found, Waiting{h.Name, why})
	}
	return found
}

// hop is the version of one rung. It has none if nothing of its minor can be installed.
type hop struct {
	minor   int
	version string
}

// way gives the rungs that are left. kubeadm moves by one minor at most, so there is one for each minor up to the
// target's. What was begun comes first: the oldest piece decides where the cluster stands, be it kubeadm's
// configuration, a static pod, an API server or a kubelet.
// https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-upgrade/
func way(c *config.Cluster, f Facts) []hop {
	minors, optional := minorsBelow(c, f)
	var hops []hop
	for i, minor := range minors {
		h := hop{minor, pick(c, f, minor)}
		if h.version != "" || i > 0 || !optional {
			hops = append(hops, h)
		}
	}
	last, _ := minorOf(c.Target)
	return append(hops, hop{last, c.Target})
}

// minorsBelow gives the minors of the rungs below the target's. The first is optional where it is only for nodes whose
// kubelets may as well stay as they are while the API servers move on: they go along with the next.
func minorsBelow(c *config.Cluster, f Facts) (minors []int, optional bool) {
	last, ok := minorOf(c.Target)
	oldest, newest, known := span(pieces(c, f))
	if !ok || !known || f.Cluster.Err != nil {
		return nil, false
	}
	first := oldest + 1
	switch {
	case newest > oldest:
		first = newest
	case nodesLeft(c, f, oldest):
		first, optional = oldest, kubeletsMayLag(f, oldest+1)
	}
	for minor := first; minor < last; minor++ {
		minors = append(minors, minor)
	}
	return minors, optional
}

// Aim points the facts at the next rung. Where that cannot be had, they stay pointed at the target.
func Aim(c *config.Cluster, f Facts) Facts {
	if next := way(c, f)[0].version; next != "" {
		return f.at(next)
	}
	return f.at(c.Target)
}

// at points the facts at a version.
func (f Facts) at(version string) Facts {
	if f.Target != version {
		f.Target, f.Artifacts = version, f.artifactsOf(version)
	}
	return f
}

// pieces are the versions of everything on the control planes that kubeadm moves together.
func pieces(c *config.Cluster, f Facts) []string {
	found := []string{f.Cluster.KubeadmVersion}
	for _, h := range controlPlanes(c) {
		seen := f.Hosts[h.Name]
		found = append(found, seen.APIVersion)
		for _, component := range controlPlaneComponents {
			if component != "etcd" {
				found = append(found, tagOf(seen.Manifests[component].Image))
			}
		}
		for unit, record := range seen.Kubeadm {
			if record.State == hosts.Running {
				found = append(found, unitVersion(unit))
			}
		}
	}
	return found
}

// unitVersion is the version that a unit of ours takes its host to.
func unitVersion(unit string) string {
	if at := strings.LastIndex(unit, "-v"); at >= 0 {
		return unit[at+1:]
	}
	return ""
}

// span gives the oldest and the newest minor; what is no version does not count.
func span(versions []string) (oldest, newest int, known bool) {
	for _, v := range versions {
		minor, ok := minorOf(v)
		if !ok {
			continue
		}
		if !known {
			oldest, newest, known = minor, minor, true
		}
		oldest, newest = min(oldest, minor), max(newest, minor)
	}
	return oldest, newest, known
}

// nodesLeft reports whether a kubelet has not come to the control planes' minor yet and does not wait on purpose, or
// whether a node is still in a window: the next rung would take more nodes out of service beside it.
func nodesLeft(c *config.Cluster, f Facts, minor int) bool {
	for _, h := range c.Hosts {
		n := f.Node(h.Name)
		is, ok := minorOf(n.Kubelet)
		if n.Window != "" || ok && is < minor && waitsAt(c, f, h, minor) == "" {
			return true
		}
	}
	return false
}

// kubeletsMayLag reports whether every kubelet may stay as it is while the API servers move to a minor.
func kubeletsMayLag(f Facts, minor int) bool {
	for _, n := range f.Cluster.Nodes {
		if is, ok := minorOf(n.Kubelet); ok && is < minor-maxSkew {
			return false
		}
	}
	return true
}
