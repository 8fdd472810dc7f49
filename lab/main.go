// Command lab runs a real kubeadm cluster on one machine, for tests and for trying things out: containers that boot systemd
// and run sshd, containerd and kubelet, brought up by the real kubeadm from components built from their Go modules.
//
// A release is a line of the table in versions.go; a shape (shape.go) says which hosts there are and how they are called. A
// recipe turns a release into binaries, images and artifacts, which the cache keeps outside the source tree: each product is
// named after a digest of its recipe and appears only when it is whole. up makes the hosts and the cluster, and asks before
// each part whether it is done, so that a second run goes on where the first one stopped. What it writes for others (cluster
// file, SSH key, known hosts, kubeconfig) is in the state folder, with the logs of all that ran. save and load keep and put back
// a whole lab within the Docker engine. Everything in the engine carries one label, by which down finds it.
//
// It needs root, Linux on amd64, Docker's engine (started if none answers), Debian's debootstrap, and the network only to
// build: the Go module proxy and a Debian mirror.
//
// It pulls no image, it does not pretend: no part of the cluster is a fake. What a container cannot show (a clock of its own,
// a failing disk, another kernel) it does not show either.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// say prints one line of progress.
func say(format string, args ...any) {
	fmt.Println(time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}
