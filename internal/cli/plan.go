package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/steps"
)

func planCommand(p Process) *cli.Command {
	return lookCommand(p, "plan", "say what upgrade would do, step by step and why; changes nothing", func(v view) error {
		if steps.Blocked(v.found) {
			writeFindings(p.Err, v.found)
			return &exitError{codeCheck, errBlocked}
		}
		doc := newPlanDocument(v.facts, steps.Plan(v.cluster, v.facts, nil)) // no step of it will run
		if v.inJSON {
			return writeJSON(p.Out, doc)
		}
		writeFindings(p.Err, v.found)
		doc.write(p.Out, v.cluster.Name)
		return nil
	})
}

// planDocument is a plan as `kuberung plan --output json` prints it and a run keeps it.
type planDocument struct {
	Schema int    `json:"schema"`
	From   string `json:"from"`
	To     string `json:"to"`
	engine.Outline
}

func newPlanDocument(f steps.Facts, p engine.Plan[steps.Facts]) planDocument {
	return planDocument{Schema: 1, From: f.Cluster.KubeadmVersion, To: f.Target, Outline: p.Outline(f)}
}

// write prints the plan for people.
func (d planDocument) write(w io.Writer, cluster string) {
	if len(d.Stages) == 0 {
		fmt.Fprintf(w, "%s is at %s: nothing to do.\n", cluster, d.To)
		return
	}
	fmt.Fprintf(w, "%s: %s -> %s\n", cluster, d.From, d.To)
	for _, stage := range d.Stages {
		fmt.Fprintf(w, "\n%s%s\n", stage.Name, width(stage))
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
