package steps

import (
	"strings"
	"time"

	"github.com/kuberung/kuberung/engine"
)

// RungOutline is a rung as data, for people and for machines: what would run and why, how long it takes, what restarts,
// and which hosts are left alone. Times are rough and in seconds.
type RungOutline struct {
	From     string         `json:"from"`
	To       string         `json:"to"`
	Seconds  int            `json:"seconds"`
	Stages   []StageOutline `json:"stages"`
	Restarts []Restart      `json:"restarts"`
	Waiting  []Waiting      `json:"waiting"`
}

// StageOutline is a stage of a rung.
type StageOutline struct {
	engine.OutlineStage
	Seconds int `json:"seconds"`
}

// Restart is something that is restarted, and on which hosts.
type Restart struct {
	What  string   `json:"what"`
	Hosts []string `json:"hosts"`
}

// Outline lists what the rung would run. It runs nothing.
func (r Rung) Outline() RungOutline {
	out := RungOutline{From: r.From, To: r.To, Stages: []StageOutline{}, Restarts: r.restarts(), Waiting: r.Waiting}
	if out.Waiting == nil {
		out.Waiting = []Waiting{}
	}
	for _, stage := range r.Plan.Outline(r.Facts).Stages {
		seconds := int(r.about(stage).Seconds())
		out.Stages = append(out.Stages, StageOutline{stage, seconds})
		out.Seconds += seconds
	}
	return out
}

// What steps take that take long, rounded from rungs on the cluster that lab/ makes: about three minutes for a control
// plane, one for a kubelet with the drain of a few small pods. What a site's drains take, only the site knows.
var takes = map[string]time.Duration{
	"upgrade-control-plane": 2 * time.Minute,
	"await-control-plane":   time.Minute, // etcd, the API server and the leases come back
	"restart-kubelet":       time.Minute, // with cordon, drain, install and the proofs
	"take-snapshot":         10 * time.Second,
	"await-add-ons":         30 * time.Second,
	"uncordon":              10 * time.Second,
}

// perSecond is how fast files come to a host and images into its runtime, in bytes.
const perSecond = 30 << 20

// about says how long a stage takes: its lanes one after another, as wide as it is.
func (r Rung) about(stage engine.OutlineStage) time.Duration {
	var all, longest time.Duration
	for _, lane := range stage.Lanes {
		var one time.Duration
		for _, s := range lane.Steps {
			one += takes[s.Name] + r.transfer(s.Name, lane.Target)
		}
		all, longest = all+one, max(longest, one)
	}
	return max(longest, all/time.Duration(max(1, min(stage.Width, len(stage.Lanes))))).Round(time.Second)
}

func (r Rung) transfer(name, host string) time.Duration {
	h, size := r.Facts.Hosts[host], int64(0)
	switch name {
	case "stage-files":
		_, size = missingPrograms(r.Facts, h)
	case "import-images":
		_, size = missingImages(r.Facts, h)
	}
	return time.Duration(size) * time.Second / perSecond
}

// restarts lists what the rung restarts, in the order of the plan.
func (r Rung) restarts() []Restart {
	found := []Restart{}
	at := map[string]int{}
	for _, stage := range r.Plan.Outline(r.Facts).Stages {
		for _, lane := range stage.Lanes {
			for _, s := range lane.Steps {
				what := r.restartOf(s.Name, lane.Target)
				if what == "" {
					continue
				}
				if _, seen := at[what]; !seen {
					at[what] = len(found)
					found = append(found, Restart{What: what})
				}
				found[at[what]].Hosts = append(found[at[what]].Hosts, lane.Target)
			}
		}
	}
	for _, what := range r.addOns() {
		found = append(found, Restart{what, []string{wholeCluster}})
	}
	return found
}

// addOns are those that kubeadm replaces, on every node, with the last control plane.
func (r Rung) addOns() []string {
	arch := ""
	for _, stage := range r.Plan.Outline(r.Facts).Stages {
		if stage.Name == "control plane" {
			arch = r.Facts.Hosts[stage.Lanes[0].Target].Arch
		}
	}
	var found []string
	c := r.Facts.Cluster
	if arch != "" && c.ProxyImage != "" && tagOf(c.ProxyImage) != r.To {
		found = append(found, "kube-proxy")
	}
	if tag := r.Facts.Artifacts.Image(arch, "coredns"); tag != "" && c.CoreDNSImage != "" && c.DNSTag == "" && tagOf(c.CoreDNSImage) != tag {
		found = append(found, "coredns")
	}
	return found
}

const kubeletAndPods = "kubelet, and with it the static pods once more"

// restartOf says what a step restarts on a host. A kubelet of another minor starts static pods anew: their UID is a hash
// that changes with it (k8s.io/kubernetes pkg/kubelet/config/common.go).
func (r Rung) restartOf(name, host string) string {
	h := r.Facts.Hosts[host]
	switch name {
	case "upgrade-control-plane":
		var moved []string
		for _, component := range controlPlaneComponents {
			if needsManifest(r.Facts, h, component) != "" {
				moved = append(moved, component)
			}
		}
		return strings.Join(moved, ", ")
	case "restart-kubelet":
		from, _ := minorOf(r.Facts.Node(host).Kubelet)
		if to, _ := minorOf(r.To); from != to && len(h.Manifests) > 0 {
			return kubeletAndPods
		}
		return "kubelet"
	}
	return ""
}
