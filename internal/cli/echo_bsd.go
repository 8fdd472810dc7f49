//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package cli

import "golang.org/x/sys/unix"

const readTermios, writeTermios, flushTermios = unix.TIOCGETA, unix.TIOCSETA, unix.TIOCSETAF
