package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kuberung/kuberung/internal/sim"
	"github.com/kuberung/kuberung/steps"
)

// What the demo climbs on. The cluster is so many times faster than a real one, and kuberung as much less patient: its
// gates hold as long as ever by the number of looks, but not by the clock.
var demoShape = sim.Shape{ControlPlanes: 1, Workers: 2, Version: "v1.35.4", Target: "v1.36.3", Pace: 8}

const demoSettle = 500 * time.Millisecond

func demoCommand(p Process) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "upgrade a simulated cluster on this machine's loopback, in about a minute; needs nothing, leaves nothing",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "yes", Value: true, Hidden: true}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage(fmt.Errorf("unexpected argument %q", c.Args().First()))
			}
			dir, err := os.MkdirTemp("", "kuberung-demo-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			return demo(c, p, dir)
		},
	}
}

// demo runs the real command on a cluster that is not: SSH over TCP, the API, etcd and kubeadm are its own.
func demo(c *cli.Context, p Process, dir string) error {
	w, artifacts, err := demoWorld(c.Context, dir)
	if err != nil {
		return err
	}
	defer w.Close()
	cluster := w.Cluster(artifacts)
	cluster.Name, cluster.File, cluster.Timeouts.Settle = "demo", "demo", demoSettle
	fmt.Fprintf(p.Out, "A simulated cluster: %d control plane and %d workers at %s, each behind SSH on %s.\n"+
		"What follows is kuberung upgrade --yes, on hosts that only know how to answer it.\n\n",
		demoShape.ControlPlanes, demoShape.Workers, demoShape.Version, "127.0.0.1")
	s := steps.Open(cluster, p.ask)
	defer s.Close()
	err = exclusively(c.Context, p, cluster, s, "upgrade to "+cluster.Target, func(p Process) error {
		return upgrade(c, p, cluster, s)
	})
	if broken := w.Broken(); err == nil && len(broken) > 0 {
		return errors.New("the simulated cluster saw what must not be: " + strings.Join(broken, "; "))
	}
	if err == nil {
		fmt.Fprintln(p.Out, "\nNothing of the demo is left on this machine. A real cluster: kuberung check -f cluster.yaml")
	}
	return err
}

func demoWorld(ctx context.Context, dir string) (w *sim.World, artifacts string, err error) {
	artifacts = filepath.Join(dir, "artifacts")
	if err := sim.WriteArtifacts(artifacts, demoShape.Target); err != nil {
		return nil, "", err
	}
	if err := sim.Prepare(ctx); err != nil {
		return nil, "", err
	}
	if w, err = sim.New(ctx, dir, demoShape); err != nil {
		return nil, "", err
	}
	if err := w.ListenTCP(); err != nil {
		w.Close()
		return nil, "", err
	}
	return w, artifacts, nil
}
