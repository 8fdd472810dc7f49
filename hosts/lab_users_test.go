//go:build lab

package hosts_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kuberung/kuberung/hosts"
)

// awkward are arguments that break where something is pasted into a line for a shell.
var awkward = []string{
	"", " ", "a b", "'", `"`, `\`, `\\'"'"\`, "$HOME", "`id`", "$(id)", "a\nb\n", "\n", "!!", "!x", "~", "*", "{a,b}", "#", "-n", "--", ";", "&", "|",
	"%s%d", "é ü 漢字 \U0001f600", "\t", "a\rb", "\x01\x1b[31m", strings.Repeat("long ", 20000),
}

// labChecks are what must work for every user who can become root.
var labChecks = []struct {
	name  string
	check func(t *testing.T, box labHost, h *hosts.Host)
}{
	{"arguments", argumentsArrive},
	{"scripts", scriptsRun},
	{"exit codes", exitCodesArrive},
	{"standard input", stdinArrives},
	{"big output", bigOutputArrives},
	{"files", filesArrive},
	{"upload", uploadArrives},
	{"unit", unitRuns},
	{"facts", factsAreTrue},
	{"tunnel", tunnelOpens},
	{"end", endKillsTree},
	{"background child", backgroundChild},
}

func TestLabUsers(t *testing.T) {
	s := site(t)
	for _, user := range []string{"ops", "fish", "csh", "zsh", "noisy", "noisycsh", "masked", "pass", "pty", "ptypass"} {
		t.Run(user, func(t *testing.T) {
			c := s.box(user, mainPort)
			if password := s.Passwords[user]; password != "" {
				c.SudoPasswordFile = secretFile(t, password)
			}
			h := open(t, c)
			for _, check := range labChecks {
				t.Run(check.name, func(t *testing.T) { check.check(t, s.Hosts["box"], h) })
			}
		})
	}
}

// both runs a check as the login user and as root.
func both(t *testing.T, check func(t *testing.T, sudo bool)) {
	t.Helper()
	for _, sudo := range []bool{false, true} {
		t.Run(fmt.Sprintf("sudo=%v", sudo), func(t *testing.T) { check(t, sudo) })
	}
}

func argumentsArrive(t *testing.T, _ labHost, h *hosts.Host) {
	want := strings.Join(awkward, "\x00") + "\x00"
	both(t, func(t *testing.T, sudo bool) {
		out, err := h.Run(t.Context(), hosts.Cmd{Argv: append([]string{"/usr/bin/printf", `%s\0`}, awkward...), Sudo: sudo})
		same(t, out, []byte(want), err)
		out, err = h.Script(t.Context(), hosts.Script{Text: `printf '%s\0' "$@"`, Args: awkward, Sudo: sudo})
		same(t, out, []byte(want), err)
	})
}

// same compares output byte by byte.
func same(t *testing.T, got, want []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%d bytes, want %d; they differ from byte %d on: %q, want %q", len(got), len(want), at, got[at:min(at+40, len(got))], want[at:min(at+40, len(want))])
}

func scriptsRun(t *testing.T, _ labHost, h *hosts.Host) {
	const text = `
id -u
umask
pwd
echo "$LC_ALL" "${TMOUT-none}" "$#"
read line && echo "read $line"
case :$PATH: in *:/usr/sbin:*) echo sbin ;; esac
cat <<'END'
the script's own "text"
END
echo 'on the other stream' >&2`
	both(t, func(t *testing.T, sudo bool) {
		out, err := h.Script(t.Context(), hosts.Script{Text: text, Args: []string{"a", "b"}, Sudo: sudo})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(out), "\n")
		if isRoot := lines[0] == "0"; isRoot != sudo {
			t.Errorf("id is %s with sudo %v", lines[0], sudo)
		}
		if strings.TrimLeft(lines[1], "0") != "22" {
			t.Errorf("umask is %s, want 022", lines[1])
		}
		if got := strings.Join(lines[2:], "|"); !strings.HasPrefix(got, "/|C ") || !strings.HasSuffix(got, ` 2|sbin|the script's own "text"|`) {
			t.Errorf("the rest is %q", got)
		}
	})
}

func exitCodesArrive(t *testing.T, _ labHost, h *hosts.Host) {
	both(t, func(t *testing.T, sudo bool) {
		for _, code := range []int{1, 2, 77, 255} {
			out, err := h.Script(t.Context(), hosts.Script{Text: `echo out; echo err >&2; exit "$1"`, Args: []string{fmt.Sprint(code)}, Sudo: sudo})
			exit, ok := errors.AsType[*hosts.ExitError](err)
			if !ok || exit.Code != code || strings.TrimSpace(exit.Stderr) != "err" || string(out) != "out\n" {
				t.Errorf("exit %d gave %q, %v", code, out, err)
			}
		}
		_, err := h.Run(t.Context(), hosts.Cmd{Argv: []string{"no-such-program"}, Sudo: sudo})
		if exit, ok := errors.AsType[*hosts.ExitError](err); !ok || exit.Code != 127 {
			t.Errorf("a program that is not there gave %v, want exit status 127", err)
		}
	})
}

func stdinArrives(t *testing.T, _ labHost, h *hosts.Host) {
	want := noise(1, 1<<20)
	both(t, func(t *testing.T, sudo bool) {
		out, err := h.Run(t.Context(), hosts.Cmd{Argv: []string{"cat"}, Stdin: bytes.NewReader(want), Sudo: sudo})
		same(t, out, want, err)
		out, err = h.Run(t.Context(), hosts.Cmd{Argv: []string{"head", "-c", "3"}, Stdin: bytes.NewReader(want), Sudo: sudo})
		same(t, out, want[:3], err)
	})
}

func bigOutputArrives(t *testing.T, _ labHost, h *hosts.Host) {
	want := noise(2, 5<<20)
	if err := h.WriteFile(t.Context(), "/etc/lab/big", want, 0o644); err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, sudo bool) {
		out, err := h.Run(t.Context(), hosts.Cmd{Argv: []string{"cat", "/etc/lab/big"}, Sudo: sudo})
		same(t, out, want, err)
	})
}

func unitRuns(t *testing.T, box labHost, h *hosts.Host) {
	var lines []string
	unit := hosts.Unit{Name: "lab-" + strings.ReplaceAll(t.Name(), "/", "-"), Argv: []string{"sh", "-c", `echo one; id -u; sleep 1; echo "$1"; exit 5`, "sh", `it's "three"`}}
	rec, adopted, err := h.RunUnit(within(t, time.Minute), unit, func(line string) { lines = append(lines, line) })
	if exit, ok := errors.AsType[*hosts.ExitError](err); !ok || exit.Code != 5 || adopted || rec.Code != 5 {
		t.Errorf("RunUnit = %+v, %v, %v, want exit status 5", rec, adopted, err)
	}
	if want := []string{"one", "0", `it's "three"`}; !slices.Equal(lines, want) {
		t.Errorf("said %q, want %q", lines, want)
	}
	if got := box.on(t, "stat -c '%a %u' /var/lib/kuberung/units"); got != "700 0\n" {
		t.Errorf("the folder of records is %q", got)
	}
	if err := h.ForgetUnit(t.Context(), unit.Name); err != nil {
		t.Error(err)
	}
}

// factsAreTrue compares with what the machine says of itself without SSH.
func factsAreTrue(t *testing.T, box labHost, h *hosts.Host) {
	f, err := h.Facts(within(t, time.Minute), hosts.Query{
		Disks:    []string{"/tmp", "/var"},
		Programs: []hosts.ProgramQuery{{Name: "systemctl", Version: []string{"--version"}}, {Name: "kubelet", Version: []string{"--version"}}},
		Units:    []string{"ssh.service"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Unknown) > 0 {
		t.Errorf("could not be told: %v", f.Unknown)
	}
	want := strings.Fields(box.on(t, "hostname; cat /proc/sys/kernel/random/boot_id /etc/machine-id; uname -r; systemctl show -P MainPID ssh"))
	got := []string{f.Hostname, f.BootID, f.MachineID, f.Kernel, fmt.Sprint(f.Units["ssh.service"].PID)}
	if !slices.Equal(got, want) {
		t.Errorf("facts are %q, want %q", got, want)
	}
	if f.OS.ID != "debian" || f.Packages != "apt" || f.Init.Name != "systemd" || !f.Init.SystemdRun || !slices.Contains(f.Addresses, box.Address) {
		t.Errorf("facts are %+v", f)
	}
	if off := f.Clock.Offset.Abs(); off > f.Clock.Uncertainty+10*time.Millisecond {
		t.Errorf("the clock is the same and said to be off by %v ± %v", off, f.Clock.Uncertainty)
	}
	if !slices.Contains(f.Disks["/tmp"].Options, "noexec") || f.Disks["/var"].Size == 0 {
		t.Errorf("disks are %+v", f.Disks)
	}
	if f.Programs["systemctl"].Package != "systemd" || !f.Programs["kubelet"].Absent {
		t.Errorf("programs are %+v", f.Programs)
	}
}

func tunnelOpens(t *testing.T, _ labHost, h *hosts.Host) {
	greets(t, h)
}

// greets checks that a port of the host can be reached, that of its sshd.
func greets(t *testing.T, h *hosts.Host) {
	t.Helper()
	nc, err := h.DialContext(within(t, 30*time.Second), "tcp", "127.0.0.1:22")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var greeting [8]byte
	if _, err := io.ReadFull(nc, greeting[:]); err != nil || string(greeting[:]) != "SSH-2.0-" {
		t.Errorf("the port says %q, %v", greeting, err)
	}
	if err := nc.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, nc)
	if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
		t.Errorf("a deadline that has passed gave %v", err)
	}
}
