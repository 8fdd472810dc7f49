package main

import (
	"context"
	"fmt"
	"os"
)

// run runs one command of the lab.
func run(ctx context.Context, args []string) error {
	s, err := readSettings(os.Getenv)
	if err != nil {
		return err
	}
	l := newLab(s)
	if len(args) == 0 {
		return fmt.Errorf("usage")
	}
	switch args[0] {
	case "up":
		return l.up(ctx)
	}
	return fmt.Errorf("unknown command %q", args[0])
}
