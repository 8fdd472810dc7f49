package cli

import (
	"fmt"
	"os"
	"strings"
)

// thisMachine is the boot of this machine, and its process numbers: containers have their own.
func thisMachine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	numbers, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + numbers
}

// processStart is when a process was started, counted from the boot; empty if it is not told.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func processStart(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The program's name comes second, in parentheses, and may hold anything.
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	if len(fields) < 20 {
		return ""
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return processEnded
	}
	return fields[19]
}
