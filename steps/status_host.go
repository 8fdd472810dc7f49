package steps

import (
	"fmt"
	"path"
	"strings"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

func hostStatus(c config.Host, f Facts, b Beside, climb []Rung) HostStatus {
	h, n := f.Hosts[c.Name], f.Node(c.Name)
	s := HostStatus{
		Host: c.Name, Node: f.NodeName(c.Name), Role: c.Role, APIServer: h.APIVersion, Kubelet: n.Kubelet,
		Done: []string{}, Left: []Left{}, Notes: nodeNotes(n),
	}
	if f.Cluster.Err == nil && n.Name == "" {
		s.Notes = append(s.Notes, "which node it is, is not known")
	}
	s.Notes = append(s.Notes, lockNotes(c.Name, b)...)
	if h.Err != nil {
		s.Problem = h.Err.Error()
		return s
	}
	if c.Role == config.ControlPlane && h.APIErr != nil {
		s.Notes = append(s.Notes, "its API server does not answer: "+h.APIErr.Error())
	}
	s.Notes = append(append(s.Notes, h.Sick...), unitNotes(h, b.Units[c.Name])...)
	if f.Cluster.Err == nil {
		s.Left, s.Done = leftIn(climb, c), []string{}
		for _, part := range partsOf(c) {
			if !hasPart(s.Left, part) {
				s.Done = append(s.Done, part)
			}
		}
	}
	s.Notes = append(s.Notes, stagedNotes(h, len(s.Left) > 0)...)
	return s
}

func partsOf(c config.Host) []string {
	if c.Role == config.ControlPlane {
		return []string{partControlPlane, partKubelet}
	}
	return []string{partKubelet}
}

func hasPart(left []Left, part string) bool {
	for _, l := range left {
		if l.Part == part {
			return true
		}
	}
	return false
}

// leftIn lists what the rungs of a climb do to a host.
func leftIn(climb []Rung, c config.Host) []Left {
	left := []Left{}
	for _, rung := range climb {
		for _, stage := range rung.Plan {
			for _, lane := range stage.Lanes {
				if lane.Target == c.Name && partOf[stage.Name] != "" && lane.Due(rung.Facts) {
					left = append(left, leftOfLane(rung, partOf[stage.Name], lane))
				}
			}
		}
	}
	return left
}

// leftOfLane leaves out gates and proofs: they are part of every lane and say nothing of it.
func leftOfLane(rung Rung, part string, l lane) Left {
	if !l.WorkDue(rung.Facts) {
		part = partWindow
	}
	left := Left{To: rung.To, Part: part, Steps: []string{}}
	for _, s := range l.Steps(rung.Facts) {
		if !strings.HasPrefix(s.Name, "await-") {
			left.Steps = append(left.Steps, s.Name)
		}
	}
	return left
}

// nodeNotes say what is out of the ordinary with a node.
func nodeNotes(n Node) []string {
	notes := []string{}
	switch {
	case n.Name == "":
		return notes
	case n.Window == drain.Cordoned && n.Cordoned:
		notes = append(notes, "cordoned by kuberung and not released yet")
	case n.Window == drain.FoundCordoned && n.Cordoned:
		notes = append(notes, "cordoned by somebody else; kuberung is at work on it and leaves it so")
	case n.Window != "":
		notes = append(notes, "a window of kuberung is open on it: "+n.Window)
	case n.Cordoned:
		notes = append(notes, "cordoned by somebody else")
	}
	if !n.Ready {
		notes = append(notes, "not Ready: "+n.NotReady)
	}
	return notes
}

func lockNotes(host string, b Beside) []string {
	var notes []string
	for _, l := range b.HostLocks {
		if l.Host != host {
			continue
		}
		if l.Expired() {
			notes = append(notes, fmt.Sprintf("%s left a lock on it, without a heartbeat for %s", l.Name, seconds(l.Age)))
		} else {
			notes = append(notes, fmt.Sprintf("locked by %s, last heartbeat %s ago", l.Name, seconds(l.Age)))
		}
	}
	return notes
}

// unitNotes tell of work of ours that runs on the host, and of kubeadm runs that did not come to a good end.
func unitNotes(h Host, running map[string]hosts.Record) []string {
	var notes []string
	for _, unit := range sorted(running) {
		r := running[unit]
		note := unit + " is at work"
		if !r.Started.IsZero() {
			note += " since " + moment(r.Started)
		}
		if last := lastLine(r.Tail); last != "" {
			note += ": " + last
		}
		notes = append(notes, note)
	}
	for _, why := range cutOff(h) {
		if !strings.HasSuffix(why, " is running") {
			notes = append(notes, why)
		}
	}
	return notes
}

func lastLine(text string) string {
	last := ""
	for line := range strings.Lines(plain(text)) {
		if line = oneLine(line); line != "" {
			last = line
		}
	}
	return last
}

// stagedNotes tell of files that wait on the host, or were left behind on one that needs them no more.
func stagedNotes(h Host, needed bool) []string {
	count := map[string]int{}
	for file := range h.Staged {
		rest := strings.TrimPrefix(file, stageDir+"/")
		count[strings.Split(rest, "/")[0]]++
	}
	var notes []string
	for _, version := range sorted(count) {
		note := fmt.Sprintf("files staged for %s: %d", version, count[version])
		if !needed {
			note = fmt.Sprintf("files left over in %s: %d", path.Join(stageDir, version), count[version])
		}
		notes = append(notes, note)
	}
	return notes
}

// othersOf are the nodes of the cluster that no host of the file is.
func othersOf(c *config.Cluster, f Facts) []HostStatus {
	ours := map[string]bool{}
	for _, h := range c.Hosts {
		ours[f.NodeName(h.Name)] = true
	}
	others := []HostStatus{}
	for _, name := range sorted(f.Cluster.Nodes) {
		if n := f.Cluster.Nodes[name]; !ours[name] {
			others = append(others, HostStatus{Host: name, Node: name, Kubelet: n.Kubelet, Done: []string{}, Left: []Left{}, Notes: nodeNotes(n)})
		}
	}
	return others
}
