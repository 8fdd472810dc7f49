package cli

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

func versionCommand(p Process) *cli.Command {
	return &cli.Command{
		Name:   "version",
		Usage:  "print version, commit and Go version",
		Action: func(*cli.Context) error { return writeVersion(p) },
	}
}

func writeVersion(p Process) error {
	_, err := fmt.Fprintf(p.Out, "kuberung %s, commit %s, %s %s/%s\n",
		p.Version, p.Commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
