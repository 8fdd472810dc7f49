package sim

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// scripts are all that kuberung sends, each known by a line of its own. The order matters: that of facts holds others.
var scripts []known

func init() { // a variable would refer to itself
	scripts = []known{
		{name: "read-facts", mark: "# Reads the facts of one host", takes: 300 * time.Millisecond, do: readFacts},
		{name: "kill", mark: `start() { read -r stat`, do: kill},
		{name: "begin-unit", mark: `new=$units/.new`, read: true, do: beginUnit},
		{name: "claim-unit", mark: `: >"$dir/claimed"`, do: claimUnit},
		{name: "forget-unit", mark: `rm -rf "$dir" "$units/.previous/$name"`, do: forgetUnit},
		{name: "look-at-unit", mark: `tail -c +$((from + 1)) "$dir/output"`, do: pollUnit},
		{name: "read-file", mark: `exec cat -- "$1"`, do: readFile},
		{name: "adopt-upload", mark: `mv -fT "$4" "$tmp"`, takes: 100 * time.Millisecond, do: adopt},
		{name: "write-file", mark: `cat >"$tmp" || exit`, read: true, do: writeFile},
		{name: "prepare-upload", mark: `base=$4 owner=`, do: prepareUpload},
		{name: "receive", mark: `cat >>"$1" || { code=$?`, read: true, takes: time.Second, do: receiveFile},
		{name: "why-not-written", mark: `head -c 1048576 /dev/zero`, do: whyNot},
		{name: "install", mark: "# Puts a staged program in place of the installed one", takes: time.Second, do: install},
		{name: "import-image", mark: `ctr -n k8s.io images import`, takes: 2 * time.Second, do: importImage},
		{name: "restart-kubelet", mark: `systemctl restart kubelet`, takes: time.Second, do: restartKubelet},
		{name: "kubelet-started", mark: `systemctl show kubelet -p ActiveEnterTimestamp`, do: kubeletStarted},
		{name: "keep-flags", mark: `cp -p "$1" "$2/kubeadm-flags.env"`, do: keepFlags},
		{name: "take-lock", mark: "report taken", do: takeLock},
		{name: "renew-lock", mark: "report renewed", do: renewLock},
		{name: "drop-lock", mark: "report dropped", do: dropLock},
		{name: "read-lock", mark: "look; report found", do: readLock},
		{name: "run", mark: `exec "$@"`, do: command},
	}
}

func kill(s *script, _ []byte) int {
	id := 0
	if _, err := fmt.Sscan(s.arg(1), &id); err != nil {
		return s.fails(2, "pid %q", s.arg(1))
	}
	if end := s.h.procs[id]; end != nil {
		end()
	}
	return 0
}

func readFile(s *script, _ []byte) int {
	f := s.h.files[s.arg(1)]
	if f == nil {
		return 64
	}
	s.out.Write(f.data)
	return 0
}

func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

const noSpace = "No space left on device"

func writeFile(s *script, data []byte) int {
	switch {
	case s.h.full:
		return s.fails(1, "mktemp: failed to create file: %s", noSpace)
	case digest(data) != s.arg(3):
		return s.fails(65, "sha256 is %s, not %s", digest(data), s.arg(3))
	}
	s.h.write(s.arg(1), data, s.arg(2))
	return 0
}

func prepareUpload(s *script, _ []byte) int {
	if s.h.full {
		return s.fails(1, "mkdir: cannot create directory: %s", noSpace)
	}
	delete(s.h.files, s.arg(5))
	if f := s.h.files[s.arg(1)]; f != nil && digest(f.data) == s.arg(3) {
		f.mode = s.arg(2)
		s.printf("same\n")
	}
	return 0
}

func receiveFile(s *script, data []byte) int {
	if s.h.full {
		return s.fails(1, "cat: write error: %s", noSpace)
	}
	if s.h.files[s.arg(1)] != nil {
		return s.fails(2, "cannot create %s: File exists", s.arg(1))
	}
	s.h.write(s.arg(1), data, "0600")
	return 0
}

func whyNot(s *script, _ []byte) int {
	delete(s.h.files, s.arg(1))
	if s.h.full {
		return s.fails(1, "head: write error: %s", noSpace)
	}
	return 0
}

func adopt(s *script, _ []byte) int {
	f := s.h.files[s.arg(4)]
	switch {
	case f == nil:
		return s.fails(1, "mv: cannot stat '%s': No such file or directory", s.arg(4))
	case digest(f.data) != s.arg(3):
		delete(s.h.files, s.arg(4))
		return s.fails(65, "sha256 is %s, not %s", digest(f.data), s.arg(3))
	}
	delete(s.h.files, s.arg(4))
	s.h.write(s.arg(1), f.data, s.arg(2))
	if strings.HasSuffix(path.Dir(s.arg(1)), s.h.w.Shape.Target) && !strings.Contains(path.Base(s.arg(1)), ".tar.") {
		s.h.w.performed("stage", s.h, s.by)
	}
	s.h.w.changed(s.h.name + ": " + s.arg(1) + " arrives")
	return 0
}

func install(s *script, _ []byte) int {
	staged, to, keep := s.h.files[s.arg(1)], s.arg(3), path.Join(s.arg(4), path.Base(s.arg(3)))
	switch {
	case staged == nil || digest(staged.data) != s.arg(2):
		return s.fails(1, "%s: FAILED", s.arg(1))
	case s.h.full:
		return s.fails(1, "cp: error writing: %s", noSpace)
	case s.h.files[to] == nil:
		return s.fails(1, "cp: cannot stat '%s': No such file or directory", to)
	}
	if s.h.files[keep] == nil {
		s.h.write(keep, s.h.files[to].data, "0755")
	}
	s.h.write(to, slices.Clone(staged.data), "0755")
	s.h.w.performed("install "+path.Base(to), s.h, s.by)
	s.h.w.changed(s.h.name + ": " + to + " is " + versionOf(staged.data))
	return 0
}

func importImage(s *script, _ []byte) int {
	f := s.h.files[s.arg(1)]
	if f == nil {
		return s.fails(1, "ctr: open %s: no such file or directory", s.arg(1))
	}
	names, err := imagesIn(f.data)
	if err != nil {
		return s.fails(1, "ctr: %v", err)
	}
	for _, name := range names {
		s.h.images[name] = true
	}
	delete(s.h.files, s.arg(1))
	s.h.w.performed("import", s.h, s.by)
	s.h.w.changed(s.h.name + ": " + strings.Join(names, ", ") + " is imported")
	return 0
}

func restartKubelet(s *script, _ []byte) int {
	s.h.w.performed("restart kubelet", s.h, s.by)
	s.h.w.restarting(s.h, s.by)
	s.h.startKubelet()
	s.h.w.changed(s.h.name + ": its kubelet is restarted")
	return 0
}

func kubeletStarted(s *script, _ []byte) int {
	if s.h.kubelet.version == "" {
		return s.fails(1, "kubelet is inactive")
	}
	s.printf("%d\n", s.h.kubelet.since.Unix())
	return 0
}

// command is a program with its arguments.
func command(s *script, _ []byte) int {
	line := strings.Join(s.args, " ")
	switch {
	case line == "rm -rf /var/lib/kuberung/stage":
		for _, name := range s.h.below("/var/lib/kuberung/stage") {
			delete(s.h.files, name)
		}
		s.h.w.performed("remove staged", s.h, s.by)
		s.h.w.changed(s.h.name + ": what was staged is removed")
	case strings.HasPrefix(line, "/usr/bin/kubeadm config images list --kubernetes-version "):
		s.printf("%s\n", strings.Join(images(s.args[len(s.args)-1]), "\n"))
	case strings.HasPrefix(line, "crictl ") && strings.HasSuffix(line, " pods --state ready -o json"):
		s.printf("%s", s.h.sandboxes())
	case strings.HasPrefix(line, "crictl ") && strings.HasSuffix(line, " info"):
		s.printf(`{"status":{"conditions":[{"type":"RuntimeReady","status":true}]}}` + "\n")
	default:
		s.h.w.breaks("known", "%s was asked to run what nobody here knows: %s", s.h.name, line)
		return s.fails(127, "%s: not found", s.arg(1))
	}
	return 0
}
