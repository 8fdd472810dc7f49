package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

// clusterFlags are the flags of every command that looks at a cluster.
func clusterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Value: "cluster.yaml", Usage: "cluster `FILE`"},
		&cli.StringFlag{Name: "to", Usage: "target `VERSION`, such as v1.36.3; wins over the file"},
	}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORMAT`: text or json"}
}

func asJSON(c *cli.Context) (bool, error) {
	switch o := c.String("output"); o {
	case "text":
		return false, nil
	case "json":
		return true, nil
	default:
		return false, usage(fmt.Errorf("--output is text or json, not %q", o))
	}
}

// readCluster reads the cluster file that the flags name. Any mistake in it is wrong usage.
func readCluster(c *cli.Context) (*config.Cluster, error) {
	if c.Args().Present() {
		return nil, usage(fmt.Errorf("unexpected argument %q", c.Args().First()))
	}
	cluster, err := config.Load(c.String("file"))
	if err != nil {
		return nil, usage(err)
	}
	return cluster, nil
}

// loadCluster reads the cluster file and its target.
func loadCluster(c *cli.Context) (*config.Cluster, error) {
	cluster, err := readCluster(c)
	if err != nil {
		return nil, err
	}
	if to := c.String("to"); to != "" {
		if err := cluster.SetTarget(to); err != nil {
			return nil, usage(err)
		}
	}
	if cluster.Target == "" {
		return nil, usage(fmt.Errorf("%s names no target, and there is no --to", cluster.File))
	}
	return cluster, nil
}

// view is what a command that only looks has to go by.
type view struct {
	session *steps.Session
	cluster *config.Cluster
	facts   steps.Facts
	found   []steps.Finding
	inJSON  bool
}

// lookCommand is a command that observes the whole cluster and says something of it. It changes
// nothing, so stopping it is safe at any time.
func lookCommand(p Process, name, usage string, say func(context.Context, view) error) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage,
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
			ctx, cancel := stoppable(c.Context, p.Stop)
			defer cancel()
			s := steps.Open(cluster, p.ask)
			defer s.Close()
			facts := s.Observe(ctx)
			if ctx.Err() != nil {
				return interrupted(ctx)
			}
			return say(ctx, view{s, cluster, facts, steps.Check(cluster, facts), inJSON})
		},
	}
}

func interrupted(ctx context.Context) error { return &exitError{codeInterrupted, context.Cause(ctx)} }

var errBlocked = errors.New("a check said no; nothing was changed")
