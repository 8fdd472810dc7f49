package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/steps"
)

func unlockCommand(p Process) *cli.Command {
	return &cli.Command{
		Name:  "unlock",
		Usage: "show who holds the lock of the cluster, ask, and remove it",
		Flags: []cli.Flag{
			clusterFlags()[0],
			&cli.StringFlag{Name: "yes-i-know", Usage: "do not ask: `HOLDER`, such as anna@laptop, is not at work any more"},
		},
		Action: func(c *cli.Context) error {
			cluster, err := readCluster(c)
			if err != nil {
				return err
			}
			s := steps.Open(cluster, p.ask)
			defer s.Close()
			ctx, cancel := stoppable(c.Context, p.Stop)
			defer cancel()
			found := s.Locks(ctx, gone)
			if ctx.Err() != nil {
				return interrupted(ctx)
			}
			remove := func(o steps.Owner) error { return s.Unlock(ctx, o) }
			return unlock(ctx, p, cluster.Name, found, c.String("yes-i-know"), remove)
		},
	}
}

// unlock removes the locks that were found, of one run after another. A run that may be alive has to be named for that,
// by whoever types its name or gave it on the command line.
func unlock(ctx context.Context, p Process, cluster string, found steps.Beside, known string, remove func(steps.Owner) error) error {
	owners := found.Owners()
	if len(owners) == 0 && found.Unread() == nil {
		fmt.Fprintf(p.Out, "Nobody has a lock on %s or a host of it.\n", cluster)
	}
	for _, o := range owners {
		writeOwner(p, o)
		if err := mayUnlock(ctx, p, o, known); err != nil {
			return err
		}
		if err := remove(o); err != nil {
			return err
		}
		fmt.Fprintf(p.Out, "The lock of %s is removed.\n", o.Name)
	}
	return found.Unread()
}

func writeOwner(p Process, o steps.Owner) {
	fmt.Fprintf(p.Out, "%s\n", o.Held[0])
	if on := o.Hosts(); on != "" && o.Held[0].Host == "" {
		fmt.Fprintf(p.Out, "It also has the lock of %s.\n", on)
	}
}

// mayUnlock lets locks go that anybody might take, and asks for the others.
func mayUnlock(ctx context.Context, p Process, o steps.Owner, known string) error {
	switch {
	case o.Expired() || known == o.Name:
		return nil
	case known != "":
		return usage(fmt.Errorf("the lock is that of %s, not of %s; nothing was removed", o.Name, known))
	}
	fmt.Fprintf(p.Out, "If that run is alive, it ends within a minute, in the middle of what it does, as by a second Ctrl-C. Better\n"+
		"make sure first that it is dead: process %d on its machine.\nType %s to remove its lock: ", o.PID, o.Name)
	text, err := typedLine(ctx, p)
	if err != nil {
		return usage(fmt.Errorf("nobody answers: give --yes-i-know=%s to remove the lock without asking; nothing was removed", o.Name))
	}
	if text != o.Name {
		return &exitError{codeStopped, errors.New("not confirmed; nothing was removed")}
	}
	return nil
}
