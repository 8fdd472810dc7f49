package steps

import (
	"fmt"

	"github.com/kuberung/kuberung/internal/config"
)

// targetReachable holds that nothing goes back. How far up a target may be is for the artifacts to say: each minor on
// the way is a rung.
func targetReachable(c *config.Cluster, f Facts) []Finding {
	if _, ok := minorOf(c.Target); !ok || f.Cluster.Err != nil {
		return nil
	}
	versions := map[string]string{"kubeadm-config": f.Cluster.KubeadmVersion}
	for _, h := range controlPlanes(c) {
		if v := f.Hosts[h.Name].APIVersion; v != "" {
			versions["the API server of "+h.Name] = v
		}
	}
	for _, name := range sorted(f.Cluster.Nodes) {
		versions["the kubelet of "+name] = f.Cluster.Nodes[name].Kubelet
	}
	var found []Finding
	for _, who := range sorted(versions) {
		if older(c.Target, versions[who]) {
			found = append(found, block(c.TargetAt.String(), fmt.Sprintf("target %s is older than %s, which is %s", c.Target, who, versions[who]),
				"choose a target that is not older than anything that runs"))
		}
	}
	return found
}

// versionsInSkew holds the published skew policy for what runs now and for the rung: API servers within one minor,
// kubelets at most three minors behind an API server, and never ahead of one.
// https://kubernetes.io/releases/version-skew-policy/
func versionsInSkew(c *config.Cluster, f Facts) []Finding {
	want, ok := minorOf(f.Target)
	if !ok || f.Cluster.Err != nil {
		return nil
	}
	found := apiServersApart(c, f)
	for _, name := range sorted(f.Cluster.Nodes) {
		v := f.Cluster.Nodes[name].Kubelet
		minor, ok := minorOf(v)
		if !ok {
			found = append(found, block(wholeCluster, fmt.Sprintf("node %s reports kubelet %q, which is no version", name, v), "look at the node"))
			continue
		}
		if minor < want-maxSkew {
			found = append(found, block(wholeCluster, fmt.Sprintf("the kubelet of %s is %s, more than three minors behind %s", name, v, f.Target),
				"move that node first"))
		}
		for _, h := range controlPlanes(c) {
			seen := f.Hosts[h.Name]
			if api, ok := minorOf(seen.APIVersion); ok && minor > api {
				found = append(found, newerKubelet(c, f, name, v, h.Name))
			}
		}
	}
	return append(found, skippedUnknown(c, f, want)...)
}

func apiServersApart(c *config.Cluster, f Facts) []Finding {
	var versions []string
	for _, h := range controlPlanes(c) {
		versions = append(versions, f.Hosts[h.Name].APIVersion)
	}
	oldest, newest, _ := span(versions)
	if newest-oldest <= 1 {
		return nil
	}
	return []Finding{block(wholeCluster, fmt.Sprintf("API servers of v1.%d and of v1.%d are beside each other: more than one minor apart", oldest, newest),
		"bring the older ones up by hand, one minor at a time")}
}

// newerKubelet is a kubelet ahead of an API server. The kubelet of a control plane talks to its own, so
// beside another's it is only what this run will mend.
func newerKubelet(c *config.Cluster, f Facts, node, version, host string) Finding {
	text := fmt.Sprintf("the kubelet of %s (%s) is newer than the API server of %s (%s)", node, version, host, f.Hosts[host].APIVersion)
	for _, h := range controlPlanes(c) {
		if f.NodeName(h.Name) == node && h.Name != host {
			return warn(wholeCluster, text, "nothing: the control planes that are behind come first")
		}
	}
	return block(wholeCluster, text, "bring all API servers to the kubelet's minor first")
}

// skippedUnknown looks for workers that this rung would take over a minor whose changes to a node's files are not known,
// or not to be told whether they are made.
func skippedUnknown(c *config.Cluster, f Facts, want int) []Finding {
	var found []Finding
	for _, h := range moving(c, f) {
		is, ok := minorOf(f.Node(h.Name).Kubelet)
		if !ok || is+1 >= want {
			continue
		}
		flags := f.Hosts[h.Name].System.Units["kubelet.service"].Files[kubeadmFlags]
		if flags.Err != "" {
			found = append(found, block(place(h), "it skips a minor, and what that would change in "+kubeadmFlags+" could not be told: "+flags.Err, "make that file readable"))
		}
		if skipped := unknownAmong(is+1, want-1); skipped != 0 {
			found = append(found, block(place(h), fmt.Sprintf("it would go from %s to %s over v1.%d, and what that minor's kubeadm changes on a node is not known here",
				f.Node(h.Name).Kubelet, f.Target, skipped),
				fmt.Sprintf("run kubeadm upgrade node of v1.%d on it first", skipped)))
		}
	}
	return found
}
