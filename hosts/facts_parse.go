package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is what the script of facts printed, by part. "?NAME" holds why NAME could not be told, "-NAME" says that it
// is not there.
type answer map[string]string

var (
	errNothingSaid = errors.New("the host says nothing of it")
	errAbsent      = errors.New("there is none")
)

// get gives a part, or why there is none.
func (a answer) get(name string) (string, error) {
	if text, found := a[name]; found {
		return text, nil
	}
	if why, found := a["?"+name]; found {
		return "", errors.New(shorten(why, 300))
	}
	if _, found := a["-"+name]; found {
		return "", errAbsent
	}
	return "", errNothingSaid
}

// parseFacts understands the script's output. It is pure: during is when the answer began, by our clock.
func parseFacts(q Query, mark, out string, during span) (Facts, error) {
	head, rest, _ := strings.Cut(out, "\n"+mark+" ")
	parts := answer{}
	for _, part := range strings.Split(rest, "\n"+mark+" ") {
		name, text, _ := strings.Cut(part, "\n")
		parts[name] = text
	}
	if _, whole := parts["end"]; !whole {
		return Facts{}, fmt.Errorf("the host's answer ends early: %q", lastWords(strings.ReplaceAll(out, mark, "#"), 200))
	}
	f := Facts{At: during.began, Unknown: map[string]string{}}
	f.told("Clock", f.Clock.set(head, during))
	f.system(parts)
	f.asked(q, parts)
	return f, nil
}

// told notes that a field is not known.
func (f *Facts) told(field string, err error) {
	if err != nil {
		f.Unknown[field] = err.Error()
	}
}

// set compares the host's time with ours. date without nanoseconds leaves a doubt of a second.
func (c *Clock) set(text string, during span) error {
	whole, fraction, _ := strings.Cut(strings.TrimSpace(text), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || during.began.IsZero() {
		return fmt.Errorf("date says %q", shorten(text, 100))
	}
	doubt := time.Duration(0)
	nanoseconds, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil || len(fraction) != 9 || nanoseconds < 0 {
		nanoseconds, doubt = int64(time.Second/2), time.Second/2
	}
	half := during.began.Sub(during.sent) / 2
	c.Offset = time.Unix(seconds, nanoseconds).Sub(during.sent.Add(half))
	c.Uncertainty = half + doubt
	return nil
}

// system fills what is told of every host.
func (f *Facts) system(a answer) {
	f.Kernel = f.line(a, "Kernel", "kernel")
	f.Arch = goArch(f.line(a, "Arch", "machine"))
	f.Hostname = f.line(a, "Hostname", "hostname")
	f.MachineID = f.line(a, "MachineID", "machine-id")
	f.BootID = f.line(a, "BootID", "boot-id")
	f.Packages = f.line(a, "Packages", "packages")
	f.Init = parseInit(f.line(a, "Init", "init"))
	if f.SELinux = f.line(a, "SELinux", "selinux"); f.SELinux == "1" {
		f.SELinux = "enforcing"
	} else if f.SELinux == "0" {
		f.SELinux = "permissive"
	}
	release := f.line(a, "OS", "os")
	f.OS = parseOS(release)
	f.odd("OS", f.OS.ID == "", release)
	cgroup := f.line(a, "Cgroup", "cgroup")
	f.Cgroup = parseCgroup(cgroup)
	f.odd("Cgroup", f.Cgroup == "", cgroup)
	uptime := f.line(a, "Uptime", "uptime")
	f.Uptime = parseUptime(uptime)
	f.odd("Uptime", f.Uptime == 0, uptime)
	memory := f.line(a, "Memory", "memory")
	f.Memory, f.Available = meminfo(memory, "MemTotal"), meminfo(memory, "MemAvailable")
	f.odd("Memory", f.Memory == 0, memory)
	addresses := f.line(a, "Addresses", "addresses")
	f.Addresses = parseAddresses(addresses)
	f.odd("Addresses", len(f.Addresses) == 0, addresses)
	if _, none := a["-swap"]; !none { // else a kernel without swap
		f.Swap = parseSwap(f.line(a, "Swap", "swap"))
	}
	if _, none := a["-apparmor"]; !none { // else a kernel without AppArmor
		f.AppArmor = f.line(a, "AppArmor", "apparmor") == "Y"
	}
}

// line gives what a part says, trimmed, and notes why a field is not known.
func (f *Facts) line(a answer, field, part string) string {
	text, err := a.get(part)
	text = strings.TrimSpace(text)
	if err == nil && text == "" {
		err = errNothingSaid
	}
	f.told(field, err)
	return text
}

// odd notes that what the host said of a field could not be understood.
func (f *Facts) odd(field string, bad bool, said string) {
	if _, known := f.Unknown[field]; bad && !known {
		f.Unknown[field] = fmt.Sprintf("not understood: %q", shorten(said, 100))
	}
}

// firstField is the first word of a text.
func firstField(s string) string {
	for word := range strings.FieldsSeq(s) {
		return word
	}
	return ""
}

// parseUptime reads /proc/uptime.
func parseUptime(text string) time.Duration {
	seconds, _ := strconv.ParseFloat(firstField(text), 64)
	return time.Duration(seconds * float64(time.Second))
}

// goArch turns what uname -m says into Go's name for it.
func goArch(machine string) string {
	names := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
	if name, found := names[machine]; found {
		return name
	}
	return machine
}

// parseOS reads os-release(5).
func parseOS(text string) OS {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = unquote(value)
		}
	}
	return OS{ID: values["ID"], Version: values["VERSION_ID"], Name: values["PRETTY_NAME"]}
}

var escaped = regexp.MustCompile("\\\\([\\\\\"'$`])")

// unquote undoes the quoting of a shell assignment, as far as os-release(5) allows it.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		s = s[1 : len(s)-1]
	}
	return escaped.ReplaceAllString(s, "$1")
}

func parseInit(text string) Init {
	var i Init
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if version, ok := strings.CutPrefix(line, "systemd "); ok {
			i.Systemd = version
		} else if line == "systemd-run" {
			i.SystemdRun = true
		} else if i.Name == "" {
			i.Name = line
		}
	}
	return i
}

// parseCgroup reads the lines of /proc/mounts that are of cgroups.
func parseCgroup(text string) string {
	one, two := false, false
	for line := range strings.Lines(text) {
		cols := strings.Fields(line)
		if len(cols) < 3 {
			continue
		}
		if cols[2] == "cgroup2" && cols[1] == "/sys/fs/cgroup" {
			return "2"
		}
		one, two = one || cols[2] == "cgroup", two || cols[2] == "cgroup2"
	}
	switch {
	case one && two:
		return "hybrid"
	case one:
		return "1"
	}
	return ""
}

// parseAddresses reads what "ip -o addr" or "hostname -I" prints.
func parseAddresses(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if i := slices.IndexFunc(words, func(w string) bool { return w == "inet" || w == "inet6" }); i >= 0 {
			words = words[i+1 : min(i+2, len(words))]
		}
		for _, word := range words {
			word, _, _ = strings.Cut(word, "/")
			ip, err := netip.ParseAddr(word)
			if err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !slices.Contains(found, ip.String()) {
				found = append(found, ip.String())
			}
		}
	}
	return found
}

// parseSwap reads /proc/swaps.
func parseSwap(text string) []Swap {
	var found []Swap
	for line := range strings.Lines(text) {
		cols := strings.Fields(line)
		if len(cols) < 3 || cols[0] == "Filename" {
			continue
		}
		kilobytes, _ := strconv.ParseInt(cols[2], 10, 64) // a size we cannot read is still swap
		found = append(found, Swap{Path: cols[0], Size: kilobytes << 10})
	}
	return found
}

// meminfo gives bytes; 0 if the name is not there.
func meminfo(text, name string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kilobytes, _ := strconv.ParseInt(firstField(rest), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}
