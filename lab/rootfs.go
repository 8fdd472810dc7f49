package main

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// debianPackages are added to Debian's minimal base to make a host: what an administrator would have there before kubeadm.
var debianPackages = []string{
	"systemd", "systemd-sysv", "dbus", "openssh-server", "openssh-sftp-server", "sudo", "procps", "kmod", "util-linux", "mount",
	"iproute2", "iptables", "nftables", "conntrack", "ipset", "ethtool", "socat", "iputils-ping", "netbase", "ca-certificates", "curl",
	"runc", "containernetworking-plugins", "haproxy", "jq", "less", "fish", "tcsh", "zsh", "bsdutils",
}

const (
	debianSuite  = "bookworm"
	debianMirror = "http://deb.debian.org/debian"
)

// debianFinish runs inside the new root: the user of every host, and no service or secret that a host must not share.
const debianFinish = `set -eu
useradd --create-home --uid 1000 --shell /bin/bash ops
rm -f /etc/ssh/ssh_host_* /etc/systemd/system/multi-user.target.wants/haproxy.service /etc/systemd/system/timers.target.wants/*
: >/etc/machine-id
apt-get clean
rm -rf /var/lib/apt/lists/*
`

// debian returns the folder of a Debian root. Making it needs root and Debian's debootstrap.
func (b builder) debian(ctx context.Context) (string, error) {
	name := "debian-" + digest(debianSuite, debianPackages, debianFinish)
	return b.cache.product(name, func(tmp string) error {
		say("bootstrapping Debian %s", debianSuite)
		log := filepath.Join(b.cache.dir, "logs", "debian.log")
		_, err := command{
			Argv:  []string{"debootstrap", "--variant=minbase", "--include=" + strings.Join(debianPackages, ","), debianSuite, tmp, debianMirror},
			Log:   log,
			Limit: 20 * time.Minute,
		}.run(ctx)
		if err != nil {
			return err
		}
		_, err = command{Argv: []string{"chroot", tmp, "sh", "-c", debianFinish}, Log: log}.run(ctx)
		return err
	})
}

// masked are units that drive hardware, or a login seat, that a container does not have, and one that would write the
// machine's own kernel settings.
var masked = []string{
	"systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udev-trigger.service",
	"systemd-logind.service", "dbus-org.freedesktop.login1.service", "getty.target", "console-getty.service", "systemd-sysctl.service", "systemd-modules-load.service",
	"sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "dev-hugepages.mount",
}

// hostFiles is what the lab adds to the Debian root: the tree files/host, container runtime, masked and enabled units.
func hostFiles(containerd string) ([]entry, error) {
	var entries []entry
	err := fs.WalkDir(files, "files/host", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		switch filepath.Base(filepath.Dir(path)) {
		case "lab":
			mode = 0o755
		case "sudoers.d":
			mode = 0o440
		}
		entries = append(entries, entry{Path: strings.TrimPrefix(path, "files/host/"), Mode: mode, Data: data})
		return nil
	})
	for _, unit := range masked {
		entries = append(entries, entry{Path: "etc/systemd/system/" + unit, Link: "/dev/null"})
	}
	for _, unit := range []string{"lab-network.service", "lab-ssh-keys.service"} {
		entries = append(entries, enabled("/etc/systemd/system/"+unit))
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		entries = append(entries, executable("usr/bin/"+name, filepath.Join(containerd, name)))
	}
	return entries, err
}

// enabled is the link that makes systemd start a unit at boot.
func enabled(unit string) entry {
	return entry{Path: "etc/systemd/system/multi-user.target.wants/" + filepath.Base(unit), Link: unit}
}

// hostParts returns what a host is made of: the folder of its Debian root, and the entries added to that.
func (b builder) hostParts(ctx context.Context) (root string, added []entry, err error) {
	if root, err = b.debian(ctx); err != nil {
		return "", nil, err
	}
	containerd, err := containerdRecipe(containerdVersion).build(ctx, b.cache)
	if err != nil {
		return "", nil, err
	}
	added, err = hostFiles(containerd)
	return root, added, err
}

// hostImage returns the name of the Docker image that hosts are started from, importing it if the engine does not have it.
func (b builder) hostImage(ctx context.Context) (string, error) {
	root, added, err := b.hostParts(ctx)
	if err != nil {
		return "", err
	}
	name := "kuberung-lab/host:" + digest(root, added)
	if _, err := docker(ctx, "image", "inspect", name); err == nil {
		return name, nil
	}
	say("importing the image of a host")
	stream := rootStream(ctx, root, added)
	defer stream.Close()
	_, err = command{
		Argv:  []string{"docker", "import", "--change", "LABEL " + label + "=image", "--change", "ENV container=docker", "-", name},
		Stdin: stream,
		Limit: 10 * time.Minute,
	}.run(ctx)
	return name, err
}

// rootStream is a tar archive of the folder root with the entries added at its end, where they win over the folder's own.
func rootStream(ctx context.Context, root string, added []entry) io.ReadCloser {
	read, write := io.Pipe()
	go func() {
		tarCommand := exec.CommandContext(ctx, "tar", "--numeric-owner", "-C", root, "-c", ".")
		base, err := tarCommand.StdoutPipe()
		if err == nil {
			err = tarCommand.Start()
		}
		if err == nil {
			err = appendTar(write, base, added)
			err = errors.Join(err, tarCommand.Wait())
		}
		write.CloseWithError(err)
	}()
	return read
}

// appendTar copies the archive base to w and adds entries to it.
func appendTar(w io.Writer, base io.Reader, added []entry) error {
	in, out := tar.NewReader(base), tar.NewWriter(w)
	for {
		header, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	if err := writeEntries(out, added); err != nil {
		return err
	}
	return out.Close()
}
