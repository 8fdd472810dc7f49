package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/steps"
)

func checkCommand(p Process) *cli.Command {
	return &cli.Command{
		Name:  "check",
		Usage: "say all that stands in the way; changes nothing",
		Flags: append(clusterFlags(), outputFlag()),
		Action: func(c *cli.Context) error {
			inJSON, err := asJSON(c)
			if err != nil {
				return err
			}
			cluster, err := loadCluster(c)
			if err != nil {
				return err
			}
			s := steps.Open(cluster)
			defer s.Close()
			facts, err := look(c.Context, p, s)
			if err != nil {
				return err
			}
			found := steps.Check(cluster, facts)
			if inJSON {
				err = writeFindingsJSON(p.Out, found)
			} else {
				writeFindings(p.Out, found)
				if len(found) == 0 {
					fmt.Fprintf(p.Out, "Nothing stands in the way of %s: %d hosts, %d nodes, everything was asked.\n",
						facts.Target, len(cluster.Hosts), len(facts.Cluster.Nodes))
				}
			}
			if err == nil && steps.Blocked(found) {
				err = &exitError{codeCheck, errBlocked}
			}
			return err
		},
	}
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
