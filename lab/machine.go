package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
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
// machine, on cgroup v1; and containersWeight what a lab needs there. By default six hosts weigh as much as one compiler,
// and a control plane that gets no processor for seconds fails in ways that say nothing about what is tested.
const (
	engineShares     = "/sys/fs/cgroup/cpu/docker/cpu.shares"
	containersWeight = 8 << 10 // eight times an ordinary process
)

// favourContainers raises the weight of containers, where the machine has such a file. It is a favour, not a need.
func favourContainers() {
	err := os.WriteFile(engineShares, []byte(strconv.Itoa(containersWeight)), 0o644)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		say("containers are not favoured over other processes: %v", err)
	}
}

// observerNice outweighs containersWeight: who measures must not be kept waiting by what is measured.
const observerNice = -15

// favourObserver gives every thread of this process, and so all that it starts from now on, a high priority.
func favourObserver() {
	threads, err := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		err = errors.Join(err, syscall.Setpriority(syscall.PRIO_PROCESS, id, observerNice))
	}
	if err != nil {
		say("the prober is not favoured over other processes: %v", err)
	}
}
