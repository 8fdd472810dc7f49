package cli

import "golang.org/x/sys/unix"

const readTermios, writeTermios, flushTermios = unix.TCGETS, unix.TCSETS, unix.TCSETSF
