package cli

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kuberung/kuberung/steps"
)

// processID names a process of this machine as no other, now or later, is named: by the machine's boot, the processes
// that it can see, and its own start. It is empty where the system does not tell.
func processID(pid int) string {
	machine, start := thisMachine(), processStart(pid)
	if machine == "" || start == "" {
		return ""
	}
	return machine + " " + start
}

// gone reports that a holder's process was one of this machine, since its last boot, and has ended for certain. A
// number that is another process's by now is known by its start.
func gone(h steps.Holder) bool {
	i := strings.LastIndex(h.Process, " ")
	if i < 0 || h.PID <= 0 || h.Process[:i] != thisMachine() {
		return false
	}
	if err := unix.Kill(h.PID, 0); errors.Is(err, unix.ESRCH) {
		return true
	}
	start := processStart(h.PID)
	return start != "" && start != h.Process[i+1:]
}

// processEnded is the start of a process that has ended, but whose parent has not asked for its end yet.
const processEnded = "ended"
