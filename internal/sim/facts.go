package sim

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

// machineID is /etc/machine-id.
func machineID(h *host) string {
	sum := sha256.Sum256([]byte(h.node))
	return fmt.Sprintf("%x", sum[:16])
}

// factParts are those that the script prints of every host.
func factParts(h *host) [][2]string {
	return [][2]string{
		{"kernel", "6.1.0-18-amd64"}, {"machine", "x86_64"}, {"os", "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12\""},
		{"hostname", h.node}, {"machine-id", machineID(h)}, {"boot-id", fmt.Sprintf("boot-%d", h.boot)}, {"uptime", "8000.10 7000.00"},
		{"memory", "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB"}, {"swap", "Filename Type Size Used Priority"},
		{"cgroup", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"}, {"addresses", "2: eth0 inet " + h.address + "/24 scope global eth0"},
		{"packages", "none"}, {"init", "systemd\nsystemd-run\nsystemd 252 (252.22)"}, {"selinux", "absent"}, {"apparmor", "Y"},
	}
}

// asks are the names of the parts that the script of facts prints without being told to.
var asks = regexp.MustCompile(`(?m)^(?:ask|one|part|if has ip; then ask|if \[ -e /sys/fs/selinux/enforce \]; then ask) ([a-z-]+)(?: |$)`)

// readFacts prints what the script of facts would, of everything that it asks for.
func readFacts(s *script, _ []byte) int {
	h := s.h
	at := h.now()
	s.printf("%d.%09d\n", at.Unix(), at.Nanosecond())
	own, more, _ := strings.Cut(s.text, "\n(\npart() {")
	own, calls, _ := strings.Cut(own, "\none apparmor /sys/module/apparmor/parameters/enabled\n")
	known := map[string]bool{"apparmor": true}
	for _, p := range factParts(h) {
		s.part(p[0], p[1])
		known[p[0]] = true
	}
	for _, m := range asks.FindAllStringSubmatch(own, -1) {
		if !known[m[1]] {
			h.w.breaks("known", "the script of facts asks for %s, which no host here tells", m[1])
		}
	}
	for calls != "" {
		var call []string
		if call, calls = words(calls); len(call) > 0 {
			s.answer(call)
		}
	}
	s.more(more)
	s.part("end", "")
	return 0
}

func (s *script) part(name, text string) { s.printf("\n%s %s\n%s\n", s.arg(1), name, text) }

// answer prints what one call of the script prints. Lines that are no call say nothing here.
func (s *script) answer(call []string) {
	call = append(call, "", "", "")
	switch call[0] {
	case "disk":
		s.disk(call[1])
	case "program":
		s.program(call[1])
	case "unit":
		s.part("unit "+call[1], "LoadState=loaded\nActiveState=active\nSubState=running\nFragmentPath=\nDropInPaths=\nMainPID=0")
	case "certificates":
		s.certificates(call[1], call[2])
	case "ask":
		var running []string
		for _, name := range sortedKeys(s.h.units) {
			if s.h.units[name].live {
				running = append(running, "kuberung-"+name+".service loaded active running kuberung")
			}
		}
		s.part("running", strings.Join(running, "\n"))
	case "part":
		if name, ok := strings.CutPrefix(call[1], "record "); ok {
			u := s.h.units[name]
			text := u.report()
			if u != nil {
				text += piece(u.output.String(), -4096, 4096)
			}
			s.printf("\n%s record %s\n%s", s.arg(1), name, text)
			s.part("record-code "+name, "0")
		}
	}
}

func (s *script) disk(dir string) {
	free := 100 << 20 // KiB
	if s.h.full {
		free = 0
	}
	if dir == "/opt/bin" {
		s.part("-disk "+dir, "")
		return
	}
	s.part("inodes "+dir, "Filesystem Inodes IUsed IFree IUse% Mounted on\n/dev/vda 1000000 1000 999000 1% /")
	s.part("disk "+dir, fmt.Sprintf("Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 209715200 1000 %d 1%% /", free))
	s.part("mount "+dir, "/dev/vda / ext4 rw,relatime 0 0")
}

func (s *script) program(name string) {
	f := s.h.files["/usr/bin/"+name]
	if f == nil {
		s.part("-program "+name, "")
		return
	}
	says := versionOf(f.data)
	s.part("program "+name, fmt.Sprintf("path=/usr/bin/%s\nreal=/usr/bin/%s\npackage=\ncode=0\nsays=%s", name, name, says))
}

var certificate = regexp.MustCompile(`(?s)-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n`)

func (s *script) certificates(name, key string) {
	f := s.h.files[name]
	switch {
	case f == nil:
		s.part("-certificates "+name, "")
	case key != "":
		s.part("certificates "+name, valueOf(f.data, key))
	default:
		s.part("certificates "+name, strings.Join(certificate.FindAllString(string(f.data), -1), ""))
	}
}

// valueOf gives the value of a key in YAML that has it once.
func valueOf(text []byte, key string) string {
	_, rest, _ := strings.Cut(string(text), key+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

var moreParts = regexp.MustCompile(`(?m)^ *part "?([a-z$ ]+?)"?$`)

// more answers the part of the script that is about Kubernetes.
func (s *script) more(text string) {
	h := s.h
	parts := map[string]string{
		"certificate": strings.Join(certificate.FindAllString(h.read("/var/lib/kubelet/pki/kubelet-client-current.pem"), -1), ""),
		"user":        "system:node:" + h.node,
		"ca":          h.read("/etc/kubernetes/pki/ca.crt"),
		"missing":     "",
		"cri":         "unix:///run/containerd/containerd.sock",
		"instance":    "",
		"staged":      strings.Join(h.below("/var/lib/kuberung/stage"), "\n"),
		"images":      strings.Join(sortedKeys(h.images), "\n"),
	}
	for _, m := range moreParts.FindAllStringSubmatch(text, -1) {
		if _, told := parts[m[1]]; !told && m[1] != "manifest $c" && m[1] != "end" {
			h.w.breaks("known", "a host is asked for the part %q, which no host here tells", m[1])
		}
	}
	if h.files["/var/lib/kubelet/instance-config.yaml"] != nil {
		parts["instance"] = "there"
	}
	for _, component := range components {
		if f := h.files[manifestFile(component)]; f != nil {
			parts["manifest "+component] = string(f.data)
		}
	}
	for _, name := range sortedKeys(parts) {
		s.part("more "+name, parts[name])
	}
}
