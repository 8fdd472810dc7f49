package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// x/term's ReadPassword cannot be ended: it would swallow the line that a person types for the next question. So the
// echo is turned off here, and the line is read from a file that has deadlines.

// silence turns a terminal's echo off, all but that of the end of the line. What was typed before is no answer: it is
// thrown away. restore puts back what was.
func silence(tty *os.File) (restore func(), err error) {
	old, err := termios(tty)
	if err != nil {
		return nil, err
	}
	quiet := *old
	quiet.Lflag &^= unix.ECHO
	quiet.Lflag |= unix.ICANON | unix.ISIG | unix.ECHONL
	quiet.Iflag |= unix.ICRNL
	if err := setTermios(tty, flushTermios, &quiet); err != nil {
		return nil, err
	}
	return func() { _ = setTermios(tty, writeTermios, old) }, nil // a terminal that is gone needs nothing back
}

func isTerminal(file *os.File) bool {
	_, err := termios(file)
	return err == nil
}

func termios(file *os.File) (*unix.Termios, error) {
	var state *unix.Termios
	err := control(file, func(fd int) (err error) {
		state, err = unix.IoctlGetTermios(fd, readTermios)
		return err
	})
	return state, err
}

func setTermios(file *os.File, how uint, state *unix.Termios) error {
	return control(file, func(fd int) error { return unix.IoctlSetTermios(fd, how, state) })
}

// control calls f without making reads of the file blocking, as its method Fd would.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
