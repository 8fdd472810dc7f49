package steps

import (
	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/config"
)

type (
	plan  = engine.Plan[Facts]
	stage = engine.Stage[Facts]
	lane  = engine.Lane[Facts]
	step  = engine.Step[Facts]
)

// wholeCluster is the target of steps that belong to no host.
const wholeCluster = "cluster"

// Plan gives the way from what was observed to the version that the facts are pointed at: what is left of one rung, in
// its order. Climb has the rungs after it. It is pure: the session is only kept for the steps, and may be nil where none
// of them will run. A cluster that has arrived gives an empty plan.
func Plan(c *config.Cluster, f Facts, s *Session) engine.Plan[Facts] {
	cps, kubelets, nodes := controlPlaneLanes(c, f, s), kubeletLanes(c, f, s), workerLanes(c, f, s)
	p := plan{
		{Name: "control plane", Width: 1, Lanes: cps},
		{Name: "control-plane kubelets", Width: 1, Lanes: kubelets},
		{Name: "workers", Width: c.Workers.Batch, Lanes: nodes},
	}.Prune(f)
	if len(p) == 0 && f.Cluster.Rollout == "" {
		return nil
	}
	return arrange(p, stageLanes(c, f, s, p), f, s)
}

// arrange puts what serves the whole cluster around the stages that have something to do: a snapshot
// before anything of a control plane moves; the proof of the add-ons before a worker moves, also where
// an earlier run was cut off before it came to that, else at the end.
func arrange(p plan, staging []lane, f Facts, s *Session) plan {
	full := plan{{Name: "stage", Width: 4, Lanes: staging}}
	byName := map[string]stage{}
	for _, st := range p {
		byName[st.Name] = st
	}
	controlPlane, kubelets, nodes := byName["control plane"], byName["control-plane kubelets"], byName["workers"]
	if workDue(controlPlane, f) || workDue(kubelets, f) {
		full = append(full, stage{Name: "snapshot", Width: 1, Lanes: []lane{
			{Target: wholeCluster, Work: []step{TakeSnapshot(s)}},
		}})
	}
	full = append(full, controlPlane, kubelets)
	// A window that an earlier run left open is closed whatever the add-ons are doing.
	if len(controlPlane.Lanes)+len(kubelets.Lanes) > 0 || workDue(nodes, f) || f.Cluster.Rollout != "" {
		full = append(full, addOns(s, f))
	}
	return append(full, nodes).Prune(f)
}

// workDue reports whether a lane of the stage has more to do than to close a window.
func workDue(st stage, f Facts) bool {
	for _, l := range st.Lanes {
		if l.WorkDue(f) {
			return true
		}
	}
	return false
}

func addOns(s *Session, f Facts) stage {
	return stage{Name: "add-ons", Width: 1, Lanes: []lane{
		{Target: wholeCluster, Work: []step{AwaitAddOns(s, f)}},
	}}
}

// stageLanes brings files to every host that a later stage touches. Images go to every node there is
// while the control plane moves: kubeadm's health check and the add-ons may land on any.
func stageLanes(c *config.Cluster, f Facts, s *Session, p plan) []lane {
	touched := map[string]bool{}
	moves := false
	for _, st := range p {
		moves = moves || st.Name == "control plane" && workDue(st, f)
		for _, l := range st.Lanes {
			touched[l.Target] = touched[l.Target] || l.WorkDue(f)
		}
	}
	var lanes []lane
	for _, h := range c.Hosts {
		switch {
		case touched[h.Name]:
			lanes = append(lanes, lane{Target: h.Name, Work: []step{StageFiles(s, h.Name), ImportImages(s, h.Name)}})
		case moves:
			lanes = append(lanes, lane{Target: h.Name, Work: []step{ImportImages(s, h.Name)}})
		}
	}
	return lanes
}

// controlPlaneLanes swaps etcd and the API server's components, one host at a time.
func controlPlaneLanes(c *config.Cluster, f Facts, s *Session) []lane {
	first := applyHost(c, f)
	ordered := make([]config.Host, 0, len(c.Hosts))
	for _, h := range controlPlanes(c) {
		if h.Name == first {
			ordered = append([]config.Host{h}, ordered...)
		} else {
			ordered = append(ordered, h)
		}
	}
	var lanes []lane
	for _, h := range ordered {
		todo := needsControlPlane
		if h.Name == first {
			todo = needsApply
		}
		lanes = append(lanes, lane{
			Target: h.Name,
			Open:   append([]step{AwaitControlPlanes(s, false)}, handOver(c, s, h.Name)...),
			Work:   []step{InstallKubeadm(s, h.Name, todo), UpgradeControlPlane(s, h.Name, todo, h.Name == first)},
			Close:  []step{AwaitControlPlane(s, h.Name)},
		})
	}
	return lanes
}

// handOver is for clusters where another member can lead.
func handOver(c *config.Cluster, s *Session, host string) []step {
	if len(controlPlanes(c)) < 2 {
		return nil
	}
	return []step{HandOverEtcd(s, host)}
}

// kubeletLanes moves the kubelets of control planes, one at a time, once all API servers are new.
func kubeletLanes(c *config.Cluster, f Facts, s *Session) []lane {
	var lanes []lane
	for _, h := range openFirst(f, controlPlanes(c)) {
		lanes = append(lanes, lane{
			Target: h.Name,
			Open: append([]step{AwaitControlPlanes(s, true), AwaitEndpoints(s, h.Name),
				Cordon(s, h.Name), DrainNode(s, h.Name), AwaitEtcd(s, h.Name)}, handOver(c, s, h.Name)...),
			Work: []step{InstallKubelet(s, h.Name), RestartKubelet(s, h.Name)},
			Close: []step{AwaitNode(s, h.Name, f), AwaitStaticPods(s, h.Name),
				RemoveStaged(s, h.Name), Uncordon(s, h.Name), AwaitWorkloads(s, f)},
		})
	}
	return lanes
}

// openFirst puts hosts in front whose window an earlier run left open: before another one opens, it closes.
func openFirst(f Facts, all []config.Host) []config.Host {
	var open, others []config.Host
	for _, h := range all {
		if f.Node(h.Name).Window != "" {
			open = append(open, h)
		} else {
			others = append(others, h)
		}
	}
	return append(open, others...)
}

// workerLanes moves the workers that do not wait for a later rung. kubeadm comes after the drain: an old kubelet that happens to
// restart must not read the new configuration while pods still run on it.
func workerLanes(c *config.Cluster, f Facts, s *Session) []lane {
	var lanes []lane
	for _, h := range openFirst(f, moving(c, f)) {
		lanes = append(lanes, lane{
			Target: h.Name,
			Open: []step{AwaitControlPlanes(s, true), AwaitEndpoints(s, h.Name),
				Cordon(s, h.Name), DrainNode(s, h.Name)},
			Work: []step{InstallKubeadm(s, h.Name, needsNodeConfig), CarryChanges(s, h.Name), UpgradeNode(s, h.Name),
				InstallKubelet(s, h.Name), RestartKubelet(s, h.Name)},
			Close: []step{AwaitNode(s, h.Name, f), RemoveStaged(s, h.Name), Uncordon(s, h.Name),
				AwaitWorkloads(s, f)},
		})
	}
	return lanes
}
