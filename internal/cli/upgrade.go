package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/internal/ui"
	"github.com/kuberung/kuberung/steps"
)

func upgradeCommand(p Process) *cli.Command {
	return &cli.Command{
		Name:  "upgrade",
		Usage: "check, show the plan, ask, and move the cluster to the target; run it again to go on",
		Flags: append(clusterFlags(), &cli.BoolFlag{Name: "yes", Usage: "do not ask"}),
		Action: func(c *cli.Context) error {
			cluster, err := loadCluster(c)
			if err != nil {
				return err
			}
			s := steps.Open(cluster, p.ask)
			defer s.Close()
			return exclusively(c.Context, p, cluster, s, "upgrade to "+cluster.Target, func(p Process) error {
				return upgrade(c, p, cluster, s)
			})
		},
	}
}

// upgrade checks, shows the plan, asks and runs it.
func upgrade(c *cli.Context, p Process, cluster *config.Cluster, s *steps.Session) error {
	facts, err := settled(c.Context, p, s)
	if err != nil {
		return err
	}
	found := steps.Check(cluster, facts)
	writeFindings(p.Out, found)
	if steps.Blocked(found) {
		return &exitError{codeCheck, errBlocked}
	}
	climb := steps.Climb(cluster, facts, s)
	newPlanDocument(cluster, facts, climb).write(p.Out, cluster.Name)
	if len(climb) == 0 {
		return nil
	}
	ask := func(from string) error { return confirm(c.Context, p, question(cluster, from)) }
	if c.Bool("yes") {
		ask = func(string) error { return nil }
	}
	if err := ask(climb[0].From); err != nil {
		return err
	}
	return run(c.Context, p, cluster, s, climb, ask)
}

// settled observes the cluster, after whatever an earlier run left going has come to its end.
func settled(ctx context.Context, p Process, s *steps.Session) (steps.Facts, error) {
	ctx, cancel := stoppable(ctx, p.Stop)
	defer cancel()
	facts, err := s.ObserveSettled(ctx, told(p.Out))
	if ctx.Err() != nil {
		return facts, interrupted(ctx)
	}
	return facts, err
}

// asker asks whether to go on from a version, with what was shown.
type asker func(from string) error

func question(cluster *config.Cluster, from string) string {
	if from == cluster.Target {
		return fmt.Sprintf("Upgrade the rest of %s to %s?", cluster.Name, from)
	}
	return fmt.Sprintf("Upgrade %s %s?", cluster.Name, move(from, cluster.Target))
}

// confirm asks once. Where nobody can answer, --yes has to be given. A stop is an answer too.
func confirm(ctx context.Context, p Process, question string) error {
	fmt.Fprintf(p.Out, "\n%s [y/N] ", question)
	text, err := typedLine(ctx, p)
	if err != nil {
		return usage(errors.New("nobody answers: give --yes to go on without asking; nothing was changed"))
	}
	if text = strings.ToLower(text); text == "y" || text == "yes" {
		return nil
	}
	return &exitError{codeStopped, errors.New("not confirmed; nothing was changed")}
}

// typedLine reads a line; an error is that nobody answers. A stop is an empty answer. Nobody having ended the line then,
// it is ended here.
func typedLine(ctx context.Context, p Process) (string, error) {
	text, failed := make(chan string, 1), make(chan error, 1)
	go func() { // stays behind when nobody answers: a read of a terminal cannot be ended
		line, err := bufio.NewReader(p.In).ReadString('\n')
		if err != nil {
			failed <- err
			return
		}
		text <- strings.TrimSpace(line)
	}()
	select {
	case line := <-text:
		return line, nil
	case err := <-failed:
		fmt.Fprintln(p.Out)
		return "", err
	case <-p.Stop:
	case <-ctx.Done():
	}
	fmt.Fprintln(p.Out)
	return "", nil
}

// run climbs: rung after rung, each but the first looked at, checked and planned anew before it begins. What was not in
// the plan that was shown is asked for.
func run(ctx context.Context, p Process, cluster *config.Cluster, s *steps.Session, climb []steps.Rung, ask asker) error {
	began := time.Now()
	for n := 1; ; n++ {
		if len(climb) > 1 || n > 1 {
			fmt.Fprintf(p.Out, "\n%s\n", heading(n, n+len(climb)-1, climb[0].From, climb[0].To))
		}
		if err := runRung(ctx, p, cluster, s, climb[0]); err != nil {
			return err
		}
		if climb[0].To == cluster.Target {
			break
		}
		var err error
		if climb, err = nextRungs(ctx, p, cluster, s, climb, ask); err != nil {
			return err
		}
		if len(climb) == 0 {
			break
		}
	}
	if err := arrived(p, cluster, s.Observe(ctx)); err != nil {
		return err
	}
	fmt.Fprintf(p.Out, "\n%s is at %s, after %s.\n", cluster.Name, cluster.Target, time.Since(began).Round(time.Second))
	for _, line := range s.Left(ctx) {
		fmt.Fprintf(p.Out, "  %s\n", line)
	}
	return nil
}

// runRung runs one rung, with a record of its own.
func runRung(ctx context.Context, p Process, cluster *config.Cluster, s *steps.Session, rung steps.Rung) error {
	doc := planDocument{Schema: 2, From: rung.From, To: rung.To, Costs: steps.CostsOf(cluster, []steps.Rung{rung})}
	doc.add(rung.Outline())
	rec, err := newRecord(cluster.Data, time.Now(), doc)
	if err != nil {
		return err
	}
	defer rec.close()
	fmt.Fprintf(p.Out, "\nThe record of this run: %s\nCtrl-C ends it in good order; a second one at once.\n\n", rec.dir)
	show := ui.Lines(p.Out)
	err = engine.Run(ctx, rung.Plan, engine.Options[steps.Facts]{
		Enter:   s.Enter,
		Observe: s.ObserveTarget,
		Stop:    p.Stop,
		Emit:    func(e engine.Event) { show(e); rec.emit(e) },
	})
	if err != nil {
		return outcome(ctx, p, cluster, s, err)
	}
	return nil
}

// arrived judges what was observed after the last step: only a cluster that could be asked and leaves
// nothing to plan is at the target.
func arrived(p Process, cluster *config.Cluster, facts steps.Facts) error {
	for _, h := range cluster.Hosts {
		if err := facts.Hosts[h.Name].Err; err != nil {
			return fmt.Errorf("every step is done, but %s could not be asked once more: %w", h.Name, err)
		}
	}
	if facts.Cluster.Err != nil {
		return fmt.Errorf("every step is done, but the cluster could not be asked once more: %w", facts.Cluster.Err)
	}
	if left := steps.Climb(cluster, facts, nil); len(left) > 0 {
		newPlanDocument(cluster, facts, left).write(p.Out, cluster.Name)
		return &exitError{codeStopped, errMore}
	}
	return nil
}

var errMore = errors.New("every planned step is done, but meanwhile there is more to do, as listed: run the same command again")

// outcome says what failed, the state things were left in, and what to type next.
func outcome(ctx context.Context, p Process, cluster *config.Cluster, s *steps.Session, err error) error {
	code := codeFailed
	if errors.Is(err, engine.ErrStopped) && onlyStopped(err) {
		code = codeStopped
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "%v\n", err)
	for _, line := range s.Left(ctx) {
		fmt.Fprintf(text, "  %s\n", line)
	}
	fmt.Fprintf(text, "Nothing was undone. To go on from here: %s", hosts.Quote("kuberung", "upgrade", "-f", cluster.File, "--to", cluster.Target))
	return &exitError{code, errors.New(text.String())}
}

// onlyStopped reports whether nothing but the stop ended the run.
func onlyStopped(err error) bool {
	if err == engine.ErrStopped {
		return true
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return errors.Is(errors.Unwrap(err), engine.ErrStopped)
	}
	for _, e := range several.Unwrap() {
		if !errors.Is(e, engine.ErrStopped) {
			return false
		}
	}
	return true
}
