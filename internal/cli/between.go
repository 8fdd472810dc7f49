package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

// nextRungs looks at the cluster once a rung is done and gives the rungs that are left. The checks are asked again: what
// stands in the way now leaves a whole cluster behind, one rung below.
func nextRungs(ctx context.Context, p Process, cluster *config.Cluster, s *steps.Session, climb []steps.Rung, ask asker) ([]steps.Rung, error) {
	done := climb[0].To
	stop := func(code int, cause error) error { return between(ctx, cluster, s, done, code, cause) }
	select {
	case <-p.Stop:
		return nil, stop(codeStopped, engine.ErrStopped)
	default:
	}
	facts, err := settled(ctx, p, s)
	if err != nil {
		var exit *exitError
		if errors.As(err, &exit) {
			return nil, stop(exit.code, engine.ErrStopped)
		}
		return nil, stop(codeFailed, err)
	}
	found := steps.Check(cluster, facts)
	writeFindings(p.Out, found)
	if steps.Blocked(found) {
		return nil, stop(codeCheck, errors.New("a check said no"))
	}
	left := steps.Climb(cluster, facts, s)
	if len(left) > 0 && left[0].To == done {
		newPlanDocument(cluster, facts, left).write(p.Out, cluster.Name)
		return nil, &exitError{codeStopped, errMore}
	}
	return left, asPromised(p, climb[1:], left, func() error {
		writeCosts(p.Out, steps.CostsOf(cluster, left))
		if err := ask(left[0].From); err != nil {
			return stop(codeStopped, errors.New("not confirmed"))
		}
		return nil
	})
}

// asPromised shows the next rung, and asks, if its steps are not those that were shown at first.
func asPromised(p Process, promised, left []steps.Rung, ask func() error) error {
	if len(left) == 0 {
		return nil
	}
	next := left[0].Outline()
	if len(promised) > 0 && sameSteps(promised[0].Outline(), next) {
		return nil
	}
	fmt.Fprintf(p.Out, "\nSince the plan was made something has changed. The next rung, %s, is now\n", move(next.From, next.To))
	writeRung(p.Out, next)
	return ask()
}

// sameSteps compares what is done and where. The reasons may have changed.
func sameSteps(a, b steps.RungOutline) bool {
	names := func(r steps.RungOutline) string {
		var all strings.Builder
		all.WriteString(r.To)
		for _, stage := range r.Stages {
			for _, lane := range stage.Lanes {
				fmt.Fprintf(&all, "\n%s %s", stage.Name, lane.Target)
				for _, step := range lane.Steps {
					all.WriteString(" " + step.Name)
				}
			}
		}
		return all.String()
	}
	return names(a) == names(b)
}

// between is a climb that ended after a whole rung.
func between(ctx context.Context, cluster *config.Cluster, s *steps.Session, done string, code int, cause error) error {
	text := &strings.Builder{}
	fmt.Fprintf(text, "%v; the climb ended between two rungs: %s is at %s, and whatever belongs to that is done\n", cause, cluster.Name, done)
	for _, line := range s.Left(ctx) {
		fmt.Fprintf(text, "  %s\n", line)
	}
	fmt.Fprintf(text, "To go on from here: %s", hosts.Quote("kuberung", "upgrade", "-f", cluster.File, "--to", cluster.Target))
	return &exitError{code, errors.New(text.String())}
}
