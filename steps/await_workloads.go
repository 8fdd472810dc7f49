package steps

import (
	"context"
	"fmt"

	"github.com/kuberung/kuberung/engine"
)

// AwaitWorkloads holds the way until every workload has as many ready replicas as in the photo: what
// was evicted is back elsewhere before the next node goes.
func AwaitWorkloads(s *Session, photo Facts) engine.Step[Facts] {
	return step{
		Name: "await-workloads",
		Does: "wait until every workload has as many ready replicas as before",
		Run: func(ctx context.Context, _ Facts, log engine.Logf) error {
			return await(ctx, s.Cluster.Timeouts.Gate, s.settle(), log, func(ctx context.Context) (string, error) {
				now, err := readWorkloads(ctx, s.api())
				if err != nil {
					return "", err
				}
				return compareWorkloads(photo.Cluster.Workloads, now), nil
			})
		},
	}
}

// compareWorkloads names the first workload that has fewer ready replicas than before. One that was
// removed or scaled down meanwhile owes no more than it now should have.
func compareWorkloads(before, now map[string]Workload) string {
	for _, name := range sorted(now) {
		if want := min(before[name].Ready, now[name].Desired); now[name].Ready < want {
			return fmt.Sprintf("%s has %d of %d replicas ready", name, now[name].Ready, want)
		}
	}
	return ""
}
