package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// netfilterPackages are the programs that kube-proxy runs.
var netfilterPackages = []string{"iptables", "nftables", "conntrack", "ipset"}

// netfilterEntries returns the files of kube-proxy's packages and of all they depend on, taken from the Debian root.
func netfilterEntries(root string) ([]entry, error) {
	status, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		entries = append(entries, entry{Path: dir, Link: "usr/" + dir})
	}
	for _, family := range []string{"iptables", "ip6tables"} { // Debian's own links lead through /etc/alternatives
		for _, name := range []string{family, family + "-save", family + "-restore"} {
			entries = append(entries, entry{Path: "usr/sbin/" + name, Link: "xtables-nft-multi"})
		}
	}
	for _, name := range withDependencies(string(status), netfilterPackages) {
		found, err := packageEntries(root, name)
		if err != nil {
			return nil, fmt.Errorf("files of package %s: %w", name, err)
		}
		entries = append(entries, found...)
	}
	return entries, nil
}

var dependency = regexp.MustCompile(`^[a-z0-9.+-]+`)

// withDependencies lists names and everything they depend on, as far as installed, from the text of dpkg's status file.
func withDependencies(status string, names []string) []string {
	depends := map[string]string{}
	for _, paragraph := range strings.Split(status, "\n\n") {
		fields := map[string]string{}
		for _, line := range strings.Split(paragraph, "\n") {
			if key, value, ok := strings.Cut(line, ": "); ok {
				fields[key] = value
			}
		}
		depends[fields["Package"]] = fields["Pre-Depends"] + "," + fields["Depends"]
	}
	var all []string
	seen := map[string]bool{}
	for queue := names; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		wants, installed := depends[name]
		if seen[name] || !installed {
			continue
		}
		seen[name] = true
		all = append(all, name)
		for _, want := range strings.FieldsFunc(wants, func(r rune) bool { return r == ',' || r == '|' }) {
			queue = append(queue, dependency.FindString(strings.TrimSpace(want)))
		}
	}
	return all
}

var mergedFolder = regexp.MustCompile(`^/(bin|sbin|lib|lib64)(/|$)`)

// packageEntries returns the files and links of one installed package, without its documentation. Package lists still name
// /lib and /sbin; the entries name the folders in /usr that these are links to.
func packageEntries(root, name string) ([]entry, error) {
	info := filepath.Join(root, "var/lib/dpkg/info")
	list, err := os.ReadFile(filepath.Join(info, name+":amd64.list"))
	if errors.Is(err, os.ErrNotExist) {
		list, err = os.ReadFile(filepath.Join(info, name+".list"))
	}
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, line := range strings.Fields(string(list)) {
		line = mergedFolder.ReplaceAllString(line, "/usr/$1$2")
		if strings.HasPrefix(line, "/usr/share/") {
			continue
		}
		source := filepath.Join(root, line)
		at, err := os.Lstat(source)
		if err != nil {
			return nil, err
		}
		switch at.Mode().Type() {
		case fs.ModeSymlink:
			target, err := os.Readlink(source)
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry{Path: line[1:], Link: target})
		case 0:
			entries = append(entries, entry{Path: line[1:], Mode: at.Mode().Perm(), Source: source})
		}
	}
	return entries, nil
}
