package hosts_test

import (
	"context"
	"fmt"

	"github.com/kuberung/kuberung/hosts"
)

func ExampleQuote() {
	fmt.Println(hosts.Quote("echo", "it's", "$HOME", ""))
	// Output: echo 'it'"'"'s' '$HOME' ''
}

// A change that must not be cut is a unit. Calling RunUnit again, after a lost connection or on another machine,
// finds the same unit instead of starting a second one.
func ExampleHost_RunUnit() {
	run := func(ctx context.Context, h *hosts.Host) error {
		_, adopted, err := h.RunUnit(ctx, hosts.Unit{
			Name: "kubeadm-apply-v1.36.3",
			Argv: []string{"kubeadm", "upgrade", "apply", "-y", "v1.36.3"},
		}, func(line string) { fmt.Println(line) })
		if adopted {
			fmt.Println("found what an earlier run had started")
		}
		return err
	}
	_ = run
}
