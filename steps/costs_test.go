package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/internal/config"
)

// What a climb costs is told only where it is true: of nodes that are drained, and of the only API server.
func TestCosts(t *testing.T) {
	consented := func(pod, consent string) drain.Refusal { return drain.Refusal{Pod: pod, Consent: consent} }
	both := Drain{Consented: []drain.Refusal{
		consented("default/bare", "LocalData"), consented("default/bare", "Unmanaged"), consented("default/store-0", "LocalData"),
	}}
	lost := []Loss{{"w-1", "default/bare", []string{"emptyDir", "no controller"}}, {"w-1", "default/store-0", []string{"emptyDir"}}}
	none, snapshots := []Loss{}, "/srv/data/snapshots"
	for _, tt := range []struct {
		name   string
		cps    int
		change func(*config.Cluster, *Facts)
		want   Costs
	}{
		{"one control plane", 1, func(*config.Cluster, *Facts) {}, Costs{none, 60, snapshots}},
		{"three", 3, func(*config.Cluster, *Facts) {}, Costs{none, 0, snapshots}},
		{"pods that go by consent", 3, func(_ *config.Cluster, f *Facts) { f.Cluster.Drains[nodeName("w-1")] = both }, Costs{lost, 0, snapshots}},
		{"several rungs, and a pod is told once", 1, func(c *config.Cluster, f *Facts) {
			*f = climbing(c, "v1.34.4", "v1.35.4")
			f.Cluster.Drains[nodeName("w-1")] = both
		}, Costs{lost, 120, snapshots}},
		{"a node that arrived is not drained", 3, func(_ *config.Cluster, f *Facts) {
			f.arrived("w-1")
			f.Cluster.Drains[nodeName("w-1")] = both
		}, Costs{none, 0, snapshots}},
		{"only a worker is left", 1, func(_ *config.Cluster, f *Facts) {
			f.moved("cp-1", applyUnit(target))
			f.Cluster.KubeadmVersion = target
			f.arrived("cp-1")
		}, Costs{none, 0, ""}},
		{"a kubelet that starts its static pods anew", 1, func(_ *config.Cluster, f *Facts) {
			f.moved("cp-1", applyUnit(target))
			f.Cluster.KubeadmVersion = target
		}, Costs{none, 60, snapshots}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster(tt.cps, 1)
			c.Data = "/srv/data"
			f := seen(c, old)
			tt.change(c, &f)
			if d := cmp.Diff(tt.want, CostsOf(c, Climb(c, f, nil))); d != "" {
				t.Errorf("costs (-want +got):\n%s", d)
			}
		})
	}
}
