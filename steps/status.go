package steps

import (
	"strings"
	"time"

	"github.com/kuberung/kuberung/internal/config"
)

// Status is where a cluster stands, for people and for machines.
type Status struct {
	Cluster  string       `json:"cluster"`
	State    State        `json:"state"`
	From     string       `json:"from"` // the oldest version that runs anywhere
	Target   string       `json:"target"`
	Problem  string       `json:"problem,omitempty"` // why the API could not be asked
	Unasked  []string     `json:"unasked"`           // hosts that could not be asked
	Lock     *LockStatus  `json:"lock"`              // nil: nobody has it
	LockErr  string       `json:"lockProblem,omitempty"`
	Etcd     string       `json:"etcd"`
	Snapshot *Snapshot    `json:"snapshot"` // nil: none is on this disk
	Hosts    []HostStatus `json:"hosts"`
	Others   []HostStatus `json:"otherNodes"` // nodes that are not in the cluster file
}

// State is where a cluster stands, in a word.
type State string

// The states of a cluster.
const (
	Finished    State = "finished"
	NotBegun    State = "not begun"
	AtWork      State = "at work"     // somebody holds the lock
	PartlyDone  State = "partly done" // some hosts have moved, none is in the middle
	Interrupted State = "interrupted" // a host is in the middle, and nobody is at work
	Untold      State = "untold"      // it could not be told
)

// LockStatus is a lock for people and machines.
type LockStatus struct {
	Holder
	Beat    time.Time `json:"heartbeat,omitzero"`
	Age     int       `json:"ageSeconds"`
	Expired bool      `json:"expired"`
	Text    string    `json:"text"`
}

// HostStatus is where one host stands.
type HostStatus struct {
	Host      string   `json:"host"`
	Node      string   `json:"node"`
	Role      string   `json:"role"`
	Problem   string   `json:"problem,omitempty"` // why it could not be asked
	APIServer string   `json:"apiServer,omitempty"`
	Kubelet   string   `json:"kubelet,omitempty"`
	Done      []string `json:"done"` // of "control plane" and "kubelet"
	Left      []Left   `json:"left"`
	Notes     []string `json:"notes"` // all that is not as it is in quiet times
}

// Left is what a rung has left to do on a host.
type Left struct {
	To    string   `json:"to"`
	Part  string   `json:"part"` // "control plane" or "kubelet"; "open window": nothing but to close it
	Steps []string `json:"steps"`
}

// The parts of a host that move.
const (
	partControlPlane = "control plane"
	partKubelet      = "kubelet"
	partWindow       = "open window" // of a host that has arrived
)

// partOf names the part that a stage of the plan moves; "" if it only prepares or proves.
var partOf = map[string]string{
	"control plane": partControlPlane, "control-plane kubelets": partKubelet, "workers": partKubelet,
}

// StatusOf tells where the cluster stands. It is pure.
func StatusOf(c *config.Cluster, f Facts, b Beside) Status {
	s := Status{
		Cluster: c.Name, Target: c.Target, Etcd: etcdLine(f), Snapshot: b.Snapshot,
		Unasked: []string{}, Hosts: []HostStatus{}, Others: othersOf(c, f),
	}
	if b.Lock != nil {
		s.Lock = lockStatus(*b.Lock)
	}
	if b.LockErr != nil {
		s.LockErr = b.LockErr.Error()
	}
	var climb []Rung
	if f.Cluster.Err != nil {
		s.Problem = f.Cluster.Err.Error()
	} else {
		climb = Climb(c, f, nil)
	}
	for _, h := range c.Hosts {
		if f.Hosts[h.Name].Err != nil {
			s.Unasked = append(s.Unasked, h.Name)
		}
		s.Hosts = append(s.Hosts, hostStatus(h, f, b, climb))
	}
	s.From = oldestOf(s.Hosts)
	s.State = s.state(f)
	return s
}

// state sums up. The order counts: a cluster that somebody works on is in the middle of something by right.
func (s Status) state(f Facts) State {
	left, moved := 0, 0
	for _, h := range s.Hosts {
		left, moved = left+len(h.Left), moved+len(h.Done)+len(f.Hosts[h.Host].Staged)
	}
	switch {
	case s.Lock != nil && !s.Lock.Expired:
		return AtWork
	case s.Problem != "":
		return Untold
	case inTheMiddle(f):
		return Interrupted
	case left > 0 && moved > 0:
		return PartlyDone
	case left > 0:
		return NotBegun
	case len(s.Unasked) > 0:
		return Untold
	case f.Cluster.Rollout != "":
		return PartlyDone
	}
	return Finished
}

// inTheMiddle reports whether a run left a host half done: with a window, or a kubeadm that did not come to a good end.
func inTheMiddle(f Facts) bool {
	for _, n := range f.Cluster.Nodes {
		if n.Window != "" {
			return true
		}
	}
	for _, h := range f.Hosts {
		if len(h.Units) > 0 || len(cutOff(h)) > 0 {
			return true
		}
	}
	return false
}

// cutOff says which runs of kubeadm did not come to a good end.
func cutOff(h Host) []string {
	var found []string
	for _, unit := range sorted(h.Kubeadm) {
		if why := unfinished(unit, h.Kubeadm[unit]); why != "" {
			found = append(found, why)
		}
	}
	return found
}

func oldestOf(all []HostStatus) string {
	oldest := ""
	for _, h := range all {
		for _, v := range []string{h.APIServer, h.Kubelet} {
			if v != "" && (oldest == "" || older(v, oldest)) {
				oldest = v
			}
		}
	}
	return oldest
}

func lockStatus(h Held) *LockStatus {
	l := &LockStatus{Holder: h.Holder, Beat: h.Beat, Expired: h.Expired(), Text: h.String(), Age: int(h.Age.Seconds())}
	if h.Expired() {
		l.Text += "; whoever comes next takes this lock"
	}
	return l
}

// etcdLine sums up the members.
func etcdLine(f Facts) string {
	e := f.Cluster.Etcd
	switch {
	case f.Cluster.Err != nil:
		return "not known"
	case f.Cluster.ExternalEtcd:
		return "external, not looked at"
	case len(e.Problems) > 0:
		return "not healthy: " + strings.Join(e.Problems, "; ")
	case e.Oldest == "":
		return "healthy, " + mebibytes(e.DBSize)
	}
	return "healthy, " + e.Oldest + ", " + mebibytes(e.DBSize)
}
