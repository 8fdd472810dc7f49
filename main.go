// kuberung takes a kubeadm cluster from one Kubernetes version to the next over SSH.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/kuberung/kuberung/internal/cli"
)

// Set by the build.
var version, commit = "unknown", "unknown"

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGPIPE) // a reader of our output that goes away must not stop the run
	go func() {
		<-signals
		close(stop) // in good order
		<-signals
		cancel(errors.New("interrupted")) // at once
	}()
	os.Exit(cli.Run(ctx, os.Args, cli.Process{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Stop: stop, Version: version, Commit: commit,
		Terminal: func() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) },
	}))
}
