package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

func planCommand(p Process) *cli.Command {
	return lookCommand(p, "plan", "say what upgrade would do, step by step and why; changes nothing", func(_ context.Context, v view) error {
		if steps.Blocked(v.found) {
			writeFindings(p.Err, v.found)
			return &exitError{codeCheck, errBlocked}
		}
		doc := newPlanDocument(v.cluster, v.facts, steps.Climb(v.cluster, v.facts, nil)) // no step of it will run
		if v.inJSON {
			return writeJSON(p.Out, doc)
		}
		writeFindings(p.Err, v.found)
		doc.write(p.Out, v.cluster.Name)
		return nil
	})
}

// planDocument is a climb as `kuberung plan --output json` prints it, and one rung of it as a run keeps it.
type planDocument struct {
	Schema  int                 `json:"schema"`
	From    string              `json:"from"`
	To      string              `json:"to"`
	Seconds int                 `json:"seconds"` // rough
	Rungs   []steps.RungOutline `json:"rungs"`
	Costs   steps.Costs         `json:"costs"`
}

func newPlanDocument(c *config.Cluster, f steps.Facts, climb []steps.Rung) planDocument {
	doc := planDocument{
		Schema: 2, From: f.Cluster.KubeadmVersion, To: c.Target,
		Rungs: []steps.RungOutline{}, Costs: steps.CostsOf(c, climb),
	}
	for _, r := range climb {
		doc.add(r.Outline())
	}
	return doc
}

func (d *planDocument) add(r steps.RungOutline) {
	d.Rungs, d.Seconds = append(d.Rungs, r), d.Seconds+r.Seconds
}

// write prints the climb for people.
func (d planDocument) write(w io.Writer, cluster string) {
	switch len(d.Rungs) {
	case 0:
		fmt.Fprintf(w, "%s is at %s: nothing to do.\n", cluster, d.To)
		return
	case 1:
		fmt.Fprintf(w, "%s: %s, %s\n", cluster, move(d.From, d.To), about(d.Seconds))
	default:
		fmt.Fprintf(w, "%s: %s -> %s in %d rungs, %s\n", cluster, d.From, d.To, len(d.Rungs), about(d.Seconds))
	}
	for i, rung := range d.Rungs {
		if len(d.Rungs) > 1 {
			fmt.Fprintf(w, "\n%s, %s\n", heading(i+1, len(d.Rungs), rung.From, rung.To), about(rung.Seconds))
		}
		writeRung(w, rung)
	}
	writeCosts(w, d.Costs)
}

func heading(n, of int, from, to string) string {
	return fmt.Sprintf("rung %d of %d: %s", n, of, move(from, to))
}

// move says where a rung leads. One that an earlier run has begun may have left only kubelets to move.
func move(from, to string) string {
	if from == to {
		return "the rest of " + to
	}
	return from + " -> " + to
}

func writeRung(w io.Writer, rung steps.RungOutline) {
	for _, stage := range rung.Stages {
		fmt.Fprintf(w, "\n%s%s, %s\n", stage.Name, width(stage.OutlineStage), about(stage.Seconds))
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, lane := range stage.Lanes {
			target := lane.Target
			for _, step := range lane.Steps {
				fmt.Fprintf(out, "  %s\t%s\t%s\n", target, step.Name, sentence(step))
				target = ""
			}
		}
		out.Flush()
	}
	if len(rung.Restarts) > 0 {
		fmt.Fprint(w, "\nrestarts\n")
		for _, r := range rung.Restarts {
			fmt.Fprintf(w, "  %s: %s\n", r.What, strings.Join(r.Hosts, ", "))
		}
	}
	if len(rung.Waiting) > 0 {
		fmt.Fprint(w, "\nleft alone\n")
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, h := range rung.Waiting {
			fmt.Fprintf(out, "  %s\t%s\n", h.Host, h.Why)
		}
		out.Flush()
	}
}

// lossesNamed is how many pods are named to people. Machines are told of all.
const lossesNamed = 10

// writeCosts prints what whoever says yes must know.
func writeCosts(w io.Writer, c steps.Costs) {
	var lines []string
	if n := len(c.Losses); n > 0 {
		var named []string
		for _, l := range c.Losses[:min(n, lossesNamed)] {
			named = append(named, fmt.Sprintf("%s (%s)", l.Pod, strings.Join(l.Why, ", ")))
		}
		if n > lossesNamed {
			named = append(named, fmt.Sprintf("and %d more", n-lossesNamed))
		}
		lines = append(lines, fmt.Sprintf("drain deletes for good (%d): %s", n, strings.Join(named, ", ")))
	}
	if c.APIAway > 0 {
		lines = append(lines, fmt.Sprintf("the API is away while its only control plane moves: %s in all", about(c.APIAway)))
	}
	if c.Snapshots != "" {
		lines = append(lines, "etcd snapshots go to "+c.Snapshots)
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\nconsequences\n  %s\n", strings.Join(lines, "\n  "))
	}
}

// about says a rough time.
func about(seconds int) string {
	minutes := int((time.Duration(seconds)*time.Second + 30*time.Second) / time.Minute)
	switch {
	case minutes == 0:
		return "less than a minute"
	case minutes < 60:
		return fmt.Sprintf("about %d min", minutes)
	}
	return fmt.Sprintf("about %d h %d min", minutes/60, minutes%60)
}

func width(stage engine.OutlineStage) string {
	switch {
	case len(stage.Lanes) < 2:
		return ""
	case stage.Width == 1:
		return ", one at a time"
	default:
		return fmt.Sprintf(", %d at a time", min(stage.Width, len(stage.Lanes)))
	}
}

func sentence(step engine.OutlineStep) string {
	if step.Why == "" {
		return step.Does
	}
	return step.Does + "; " + step.Why
}

func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n        ") }
