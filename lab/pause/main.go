// Command pause holds the namespaces of a pod open until it is told to stop, reaping what is re-parented to it.
// With -v it prints its version and exits at once: kubeadm's upgrade health check runs it so and needs exit status 0.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var version = "unknown" // stamped by the linker

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		fmt.Println("pause", version)
		return
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
