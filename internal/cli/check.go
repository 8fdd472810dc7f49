package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/steps"
)

func checkCommand(p Process) *cli.Command {
	return lookCommand(p, "check", "say all that stands in the way; changes nothing", func(_ context.Context, v view) error {
		blocked := steps.Blocked(v.found)
		if v.inJSON {
			if err := writeFindingsJSON(p.Out, v.found); err != nil {
				return err
			}
		} else {
			writeFindings(p.Out, v.found)
			if !blocked {
				fmt.Fprintf(p.Out, "Nothing stands in the way of %s: %d hosts, %d nodes, everything was asked.\n",
					v.cluster.Target, len(v.cluster.Hosts), len(v.facts.Cluster.Nodes))
			}
		}
		if blocked {
			return &exitError{codeCheck, errBlocked}
		}
		return nil
	})
}

// writeFindings prints a finding as a short paragraph: a table would cut or wrap what matters.
func writeFindings(w io.Writer, found []steps.Finding) {
	for _, f := range found {
		kind := "warns "
		if f.Block {
			kind = "BLOCKS"
		}
		fmt.Fprintf(w, "%s  %s  %s\n        %s\n        -> %s\n", kind, f.Check, f.Where, indent(f.Text), indent(f.Fix))
	}
}

func writeFindingsJSON(w io.Writer, found []steps.Finding) error {
	if found == nil {
		found = []steps.Finding{}
	}
	return writeJSON(w, struct {
		Schema   int             `json:"schema"`
		Findings []steps.Finding `json:"findings"`
	}{1, found})
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
