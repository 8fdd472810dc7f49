package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// machineLimits are kernel limits that all hosts of all labs share, and what the largest lab needs of them. Debian's 128
// instances last for about four nodes: the next kubelet ends with "inotify_init: too many open files".
var machineLimits = map[string]int{
	"/proc/sys/fs/inotify/max_user_instances": 8192,
	"/proc/sys/fs/inotify/max_user_watches":   524288,
}

// raiseLimits raises those of machineLimits that are too low, until the machine's next boot. It lowers none.
func raiseLimits() error {
	for path, want := range machineLimits {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		have, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if have >= want {
			continue
		}
		say("raising %s from %d to %d", path, have, want)
		if err := os.WriteFile(path, []byte(strconv.Itoa(want)), 0o644); err != nil {
			return fmt.Errorf("the lab needs %d in %s: %w", want, path, err)
		}
	}
	return nil
}

// engineShares is where the kernel weighs the processes of all containers together against those of the rest of the
// machine, on cgroup v1; and enginesWeight what a lab needs there. By default six hosts weigh as much as one compiler, and
// a control plane that gets no processor for seconds fails in ways that say nothing about what is tested.
const (
	engineShares  = "/sys/fs/cgroup/cpu/docker/cpu.shares"
	enginesWeight = 64 << 10
)

// favourContainers raises the weight of containers, where the machine has such a file. It is a favour, not a need.
func favourContainers() {
	if err := os.WriteFile(engineShares, []byte(strconv.Itoa(enginesWeight)), 0o644); err != nil && !os.IsNotExist(err) {
		say("containers are not favoured over other processes: %v", err)
	}
}
