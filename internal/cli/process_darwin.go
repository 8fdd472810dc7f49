package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// thisMachine is the boot of this machine.
func thisMachine() string {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return boot
}

// processStart is when a process was started; empty if it is not told.
func processStart(pid int) string {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ""
	}
	const zombie = 5 // SZOMB of sys/proc.h
	if p.Proc.P_stat == zombie {
		return processEnded
	}
	return fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}
