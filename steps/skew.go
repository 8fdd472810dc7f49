package steps

import (
	"fmt"

	"github.com/kuberung/kuberung/internal/config"
)

// maxSkew is how many minors a kubelet may be behind an API server.
// https://kubernetes.io/releases/version-skew-policy/#kubelet
const maxSkew = 3

// waits says why a rung leaves a worker's kubelet as it is, or "". With workers.climb: once a worker waits for the last
// rung, or for the last that the next one's API servers still let it wait for.
func waits(c *config.Cluster, f Facts, h config.Host) string {
	minor, ok := minorOf(f.Target)
	if !ok {
		return ""
	}
	return waitsAt(c, f, h, minor)
}

func waitsAt(c *config.Cluster, f Facts, h config.Host, rung int) string {
	until := rung
	for mayWait(c, f, h, until) {
		until++
	}
	if until == rung {
		return ""
	}
	return fmt.Sprintf("its kubelet stays %s until v1.%d (workers.climb: once)", f.Node(h.Name).Kubelet, until)
}

// mayWait reports whether a rung can leave a worker to a later one.
func mayWait(c *config.Cluster, f Facts, h config.Host, rung int) bool {
	last, okLast := minorOf(c.Target)
	n := f.Node(h.Name)
	is, okIs := minorOf(n.Kubelet)
	switch {
	case h.Role != config.Worker || c.Workers.Climb != config.Once || !okLast || !okIs || rung >= last:
		return false
	case n.Window != "": // it is in hand already
		return false
	case is < rung+1-maxSkew: // the next rung's API servers would be too new for it
		return false
	}
	return unknownAmong(is+1, rung) == 0
}

// moving are the workers that do not wait.
func moving(c *config.Cluster, f Facts) []config.Host {
	var found []config.Host
	for _, h := range workers(c) {
		if waits(c, f, h) == "" {
			found = append(found, h)
		}
	}
	return found
}

// unknownAmong gives the first minor between two, both included, of which it is not known what its kubeadm changes on a
// node; 0 if all are known.
func unknownAmong(from, to int) int {
	for minor := from; minor <= to; minor++ {
		if minor < knownFrom || minor > knownTo {
			return minor
		}
	}
	return 0
}
