package steps

import (
	"slices"
	"time"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/config"
)

// Costs is what a climb takes from those who use the cluster, as far as that is known before it.
type Costs struct {
	Losses    []Loss `json:"losses"`         // what drains delete for good; pods that come to the nodes later are not in it
	APIAway   int    `json:"apiAwaySeconds"` // rough, of all rungs together; 0: there is always an API server
	Snapshots string `json:"snapshots"`      // the directory that etcd snapshots go to; empty: none is taken
}

// Loss is a pod that a drain evicts because the cluster file consents to what that loses.
type Loss struct {
	Host string   `json:"host"`
	Pod  string   `json:"pod"` // namespace/name
	Why  []string `json:"why"` // "emptyDir": its data is lost; "no controller": it does not come back
}

// apiAway is how long, roughly, the API is away in a rung where there is one control plane; the cases of lab/ measure it.
const apiAway = time.Minute

// CostsOf gives the costs of rungs. It is pure.
func CostsOf(c *config.Cluster, climb []Rung) Costs {
	costs := Costs{Losses: []Loss{}}
	drained := map[string]bool{}
	for _, r := range climb {
		if len(r.targets(r.restartsAPI)) > 0 && len(controlPlanes(c)) == 1 {
			costs.APIAway += int(apiAway.Seconds())
		}
		if len(r.targets(named("take-snapshot"))) > 0 {
			costs.Snapshots = snapshotDir(c)
		}
		for _, host := range r.targets(named("drain")) {
			if !drained[host] {
				drained[host] = true
				costs.Losses = append(costs.Losses, losses(host, r.Facts.Cluster.Drains[r.Facts.NodeName(host)])...)
			}
		}
	}
	return costs
}

// targets gives the target of every lane that has such a step, in the order of the plan.
func (r Rung) targets(is func(step, target string) bool) []string {
	var found []string
	for _, stage := range r.Plan.Outline(r.Facts).Stages {
		for _, lane := range stage.Lanes {
			if slices.ContainsFunc(lane.Steps, func(s engine.OutlineStep) bool { return is(s.Name, lane.Target) }) {
				found = append(found, lane.Target)
			}
		}
	}
	return found
}

func named(name string) func(step, target string) bool {
	return func(step, _ string) bool { return step == name }
}

// restartsAPI reports whether a step restarts the API server of its host, or etcd under it.
func (r Rung) restartsAPI(step, host string) bool {
	return step == "upgrade-control-plane" || r.restartOf(step, host) == kubeletAndPods
}

// losses gives each pod once, however many consents it needs; the survey has them side by side.
func losses(host string, d Drain) []Loss {
	why := map[string]string{"LocalData": "emptyDir", "Unmanaged": "no controller"}
	var found []Loss
	for _, r := range d.Consented {
		if last := len(found) - 1; last >= 0 && found[last].Pod == r.Pod {
			found[last].Why = append(found[last].Why, why[r.Consent])
			continue
		}
		found = append(found, Loss{host, r.Pod, []string{why[r.Consent]}})
	}
	return found
}
