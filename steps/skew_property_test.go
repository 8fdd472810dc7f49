package steps

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// versionsOn is what is on the shelf, by minor, oldest first.
var versionsOn = map[int][]string{
	33: {"v1.33.9"}, 34: {"v1.34.4", "v1.34.7"}, 35: {old, "v1.35.6"}, 36: {target, "v1.36.4"}, 37: {"v1.37.2"}, 38: {"v1.38.0"}, 39: {"v1.39.1"},
}

// upstream is the published version skew policy, written a second time.
// https://kubernetes.io/releases/version-skew-policy/
type upstream struct {
	t *rapid.T
	c *config.Cluster
	f Facts
}

func (u *upstream) minor(v string) int {
	m, ok := minorOf(v)
	if !ok {
		u.t.Fatalf("%q is no version", v)
	}
	return m
}

// holds compares everything with everything that it may speak to.
func (u *upstream) holds(when string) {
	oldest, newest := 1000, 0
	for _, h := range controlPlanes(u.c) {
		seen := u.f.Hosts[h.Name]
		api := u.minor(seen.APIVersion)
		oldest, newest = min(oldest, api), max(newest, api)
		for _, component := range []string{"kube-controller-manager", "kube-scheduler"} { // kubeadm points them at their own API server
			if is := u.minor(tagOf(seen.Manifests[component].Image)); is > api || is < api-1 {
				u.t.Fatalf("%s: %s of %s is 1.%d beside an API server of 1.%d", when, component, h.Name, is, api)
			}
		}
	}
	if newest-oldest > 1 {
		u.t.Fatalf("%s: API servers of 1.%d and 1.%d", when, oldest, newest)
	}
	proxy := u.minor(tagOf(u.f.Cluster.ProxyImage))
	if proxy > oldest || proxy < newest-3 {
		u.t.Fatalf("%s: kube-proxy is 1.%d beside API servers of 1.%d to 1.%d", when, proxy, oldest, newest)
	}
	for _, h := range u.c.Hosts {
		is := u.minor(u.f.Node(h.Name).Kubelet)
		if is > oldest || is < newest-3 {
			u.t.Fatalf("%s: the kubelet of %s is 1.%d beside API servers of 1.%d to 1.%d", when, h.Name, is, oldest, newest)
		}
		if is-proxy > 3 || proxy-is > 3 {
			u.t.Fatalf("%s: kube-proxy is 1.%d beside the kubelet of %s, 1.%d", when, proxy, h.Name, is)
		}
	}
}

// perform has the effect of one step, with the policy held at every moment of it. A control plane that is cut short
// has come through some of its components.
func (u *upstream) perform(name, host string, cut bool) {
	when := fmt.Sprintf("at %s of %s on the way to %s", name, host, u.f.Target)
	switch name {
	case "upgrade-control-plane":
		u.kubeadm(when, host, cut)
	case "upgrade-node":
		u.kubeadmRuns(when, host)
	case "restart-kubelet":
		text := u.f.Hosts[host].System.Units["kubelet.service"].Files[kubeadmFlags].Text
		if _, there := flagIn(text, "pod-infra-container-image"); there && u.minor(u.f.Target) >= 35 {
			u.t.Fatalf("%s: the kubelet does not start with %s", when, text)
		}
		if u.minor(u.f.Target) >= 37 && !u.f.Hosts[host].Instance {
			u.t.Fatalf("%s: 1.37 does not know the runtime that the flags named", when)
		}
	}
	if effect := effects[name]; effect != nil && !cut {
		effect(u.c, &u.f, host)
	}
	u.holds(when)
}

// kubeadm moves the static pods of one host, one by one.
func (u *upstream) kubeadm(when, host string, cut bool) {
	config := u.minor(u.f.Cluster.KubeadmVersion)
	if is := u.minor(u.f.Target); is > config+1 || is < config {
		u.t.Fatalf("%s: kubeadm-config is 1.%d", when, config)
	}
	apply := applyHost(u.c, u.f) == host
	if !apply && u.f.Cluster.KubeadmVersion != u.f.Target {
		u.t.Fatalf("%s: kubeadm upgrade node would take %s", when, u.f.Cluster.KubeadmVersion)
	}
	u.kubeadmRuns(when, host)
	upTo := len(controlPlaneComponents)
	if cut {
		upTo = rapid.IntRange(0, upTo).Draw(u.t, "components")
	}
	h := u.f.Hosts[host]
	for _, component := range controlPlaneComponents[:upTo] {
		h.Manifests[component] = manifest(component, u.f.Target)
		if component == "kube-apiserver" {
			h.APIVersion = u.f.Target
		}
		u.f.Hosts[host] = h
		u.holds(when + ", after " + component)
	}
	if cut && rapid.Bool().Draw(u.t, "recorded") {
		unit := nodeUnit(u.f.Target)
		if apply {
			unit = applyUnit(u.f.Target)
		}
		h.Kubeadm[unit] = hosts.Record{State: hosts.Interrupted}
	}
}

// kubeadmRuns has the effect on a node's files that the kubeadm of these minors has.
func (u *upstream) kubeadmRuns(when, host string) {
	h := u.f.Hosts[host]
	if h.Binaries["kubeadm"].Version != u.f.Target {
		u.t.Fatalf("%s: kubeadm is %s", when, h.Binaries["kubeadm"].Version)
	}
	text := h.System.Units["kubelet.service"].Files[kubeadmFlags].Text
	minor := u.minor(u.f.Target)
	if minor == 35 {
		text = withoutFlag(text, "pod-infra-container-image")
	}
	if minor <= 36 {
		text, h.Instance = withoutFlag(text, "container-runtime-endpoint"), true
	}
	h.System.Units = map[string]hosts.SystemUnit{"kubelet.service": {Files: map[string]hosts.File{kubeadmFlags: {Text: text}}}}
	u.f.Hosts[host] = h
}

// climb runs rungs to the end, or up to a number of steps.
func (u *upstream) climb(steps int) {
	for range 8 {
		u.f = Aim(u.c, u.f)
		if found := Check(u.c, u.f); Blocked(found) {
			u.t.Fatalf("on the way to %s: %q", u.f.Target, lines(found))
		}
		p := Plan(u.c, u.f, nil)
		if len(p) == 0 && u.f.Target == u.c.Target {
			return
		}
		if len(p) == 0 {
			u.t.Fatalf("the rung %s has nothing to do", u.f.Target)
		}
		u.f = u.f.copied()
		for _, st := range p {
			for _, l := range st.Lanes {
				for _, s := range l.Steps(u.f) {
					u.perform(s.Name, l.Target, steps == 0)
					if steps == 0 {
						return
					}
					steps--
				}
			}
		}
	}
	u.t.Fatal("the climb does not end")
}

// No order that can be planned breaks the policy, from wherever runs were cut off, and every climb comes to its end.
func TestNoOrderBreaksTheSkewPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(34, 36).Draw(t, "from")
		c := cluster(rapid.IntRange(1, 5).Draw(t, "control planes"), rapid.IntRange(0, 6).Draw(t, "workers"))
		c.Target = versionsOn[from][0]
		u := &upstream{t, c, seen(c, versionsOn[from][0])}
		for minor := 33; minor <= 39; minor++ {
			for _, v := range versionsOn[minor] {
				u.f.Shelf = append(u.f.Shelf, files(v))
			}
		}
		for _, h := range workers(c) {
			back := versionsOn[rapid.IntRange(max(33, from-2), from).Draw(t, "kubelet of "+h.Name)][0]
			u.f.node(h.Name, func(n *Node) { n.Kubelet = back; n.Cordoned = rapid.Bool().Draw(t, "cordoned") })
			u.f.host(h.Name, func(host *Host) { host.binary("kubelet", back) })
		}
		for _, h := range c.Hosts { // as the kubeadm of its minor has left them
			is, text := u.minor(u.f.Node(h.Name).Kubelet), oldFlags
			if is >= 35 {
				text = withoutFlag(text, "pod-infra-container-image")
			}
			u.f.host(h.Name, func(host *Host) {
				host.Instance = is >= 36
				host.System.Units = map[string]hosts.SystemUnit{"kubelet.service": {Files: map[string]hosts.File{kubeadmFlags: {Text: text}}}}
			})
		}
		u.holds("at first")
		top := from + rapid.IntRange(1, 3).Draw(t, "minors")
		for cuts := rapid.IntRange(0, 4).Draw(t, "cuts"); cuts >= 0; cuts-- {
			c.Workers.Climb = rapid.SampledFrom([]string{config.EachRung, config.Once}).Draw(t, "climb")
			c.Target = versionsOn[top][len(versionsOn[top])-1]
			steps := rapid.IntRange(0, 150).Draw(t, "steps")
			if cuts == 0 {
				steps = 1 << 30
			}
			u.climb(steps)
		}
		if left := Climb(c, u.f, nil); len(left) > 0 {
			t.Fatalf("%d rungs are left", len(left))
		}
		for _, h := range c.Hosts {
			if n := u.f.Node(h.Name); n.Kubelet != c.Target || n.Window != "" {
				t.Fatalf("%s ends as %+v", h.Name, n)
			}
		}
	})
}

// Workers that wait are drained once on the way, however many minors the policy lets them skip.
func TestOnceIsOneDrain(t *testing.T) {
	for _, tt := range []struct {
		from, to, climb string
		drains          int
	}{
		{"v1.34.4", "v1.37.2", config.EachRung, 3},
		{"v1.34.4", "v1.37.2", config.Once, 1},
		{"v1.34.4", "v1.36.3", config.Once, 1},
		{"v1.34.4", "v1.38.0", config.Once, 2}, // four minors: at the latest that keeps the policy, and at the last
		{"v1.36.3", "v1.39.1", config.Once, 2}, // what 1.38 changes on a node is not known: not skipped
		{"v1.36.1", "v1.36.3", config.Once, 1},
	} {
		c := climber(3, 2, tt.to, tt.climb)
		f := climbing(c, tt.from, "v1.38.0", "v1.37.2", "v1.36.3", old)
		drains := map[string]int{}
		var rungs []string
		until := ""
		for _, rung := range Climb(c, f, nil) {
			rungs = append(rungs, rung.To)
			for _, w := range rung.Waiting {
				_, until, _ = strings.Cut(w.Why, " until ")
				until, _, _ = strings.Cut(until, " ")
			}
			for _, st := range rung.Plan.Outline(rung.Facts).Stages {
				for _, l := range st.Lanes {
					for _, s := range l.Steps {
						if s.Name != "drain" {
							continue
						}
						drains[l.Target]++
						if l.Target != "w-1" {
							continue
						}
						if !strings.HasPrefix(rung.To, until) {
							t.Errorf("%s to %s, %s: w-1 moves with %s, and was to wait until %s", tt.from, tt.to, tt.climb, rung.To, until)
						}
						until = ""
					}
				}
			}
		}
		if drains["w-1"] != tt.drains || drains["w-2"] != tt.drains || drains["cp-1"] != len(rungs) {
			t.Errorf("%s to %s, %s: over %s, drains %v, want %d of each worker", tt.from, tt.to, tt.climb, strings.Join(rungs, " "), drains, tt.drains)
		}
	}
}
