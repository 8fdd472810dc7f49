// Package cli is the commands of kuberung: flags in, exit code out. Each command is a file.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/ui"
)

// Process is what a command gets from the process it runs in.
type Process struct {
	In              io.Reader
	Out, Err        io.Writer
	Stop            <-chan struct{} // closed: end in good order
	Version, Commit string

	// Terminal opens the terminal that a person can be asked on, whatever In is; nil: there is none.
	Terminal func() (*os.File, error)

	ask hosts.Ask
}

// Run runs one command line, args[0] being the program's name, and gives its exit code.
func Run(ctx context.Context, args []string, p Process) int {
	// Libraries must not write between our lines; what they have to say comes back as errors.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	t := &terminal{open: p.Terminal, stop: p.Stop}
	p.Out, p.Err, p.ask = ui.Plain(t.beside(p.Out)), ui.Plain(t.beside(p.Err)), t.ask

	app := &cli.App{
		Name:      "kuberung",
		Usage:     "take a kubeadm cluster from one Kubernetes version to the next, over SSH",
		Reader:    p.In,
		Writer:    p.Out,
		ErrWriter: p.Err,
		Commands: []*cli.Command{
			checkCommand(p), planCommand(p), upgradeCommand(p), demoCommand(p), statusCommand(p), unlockCommand(p), versionCommand(p),
		},
		Description:     exitCodes(),
		Flags:           []cli.Flag{&cli.BoolFlag{Name: "version", Usage: "print the version, as the command does"}},
		HideHelpCommand: true,
		HideVersion:     true,
		OnUsageError:    usageError,
		ExitErrHandler:  func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.Bool("version") {
				return writeVersion(p)
			}
			if c.Args().Present() {
				return usage(fmt.Errorf("no command %q; kuberung --help lists them", c.Args().First()))
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, command := range app.Commands {
		command.OnUsageError = usageError
	}
	err := app.RunContext(ctx, args)
	if err == nil {
		return codeDone
	}
	code := codeFailed
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if ctx.Err() != nil {
		code = codeInterrupted
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(p.Err, "kuberung: %s\n", text)
	}
	return code
}

// usageError says where to look for what there is.
func usageError(c *cli.Context, err error, isCommand bool) error {
	name := "kuberung"
	if isCommand {
		name += " " + c.Command.Name
	}
	return usage(fmt.Errorf("%w; %s --help lists the flags", err, name))
}

// stoppable gives a context that ends as soon as the operator asks to stop: for work that changes
// nothing.
func stoppable(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-stop:
			cancel(errStopped)
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}

var errStopped = errors.New("stopped; nothing was changed")
