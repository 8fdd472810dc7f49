// Command lab runs a real kubeadm cluster on one machine, for tests and for trying things out: containers that boot systemd
// and run sshd, containerd and kubelet, brought up by the real kubeadm from components built from their Go modules.
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
