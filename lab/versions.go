package main

import (
	"fmt"
	"slices"
	"strings"
)

// release is one Kubernetes version that the lab can run. Only what kubeadm does not say itself stands here: the
// versions of etcd, CoreDNS and pause are read from `kubeadm config images list`.
type release struct {
	Kubernetes string // with its leading v
	Crictl     string // newest cri-tools release that is not newer than Kubernetes and that the module proxy serves
}

// releases is the table to add a version to: one line, then `build`.
var releases = []release{
	{Kubernetes: "v1.34.4", Crictl: "v1.34.0"},
	{Kubernetes: "v1.35.4", Crictl: "v1.34.0"},
	{Kubernetes: "v1.36.1", Crictl: "v1.36.0"},
	{Kubernetes: "v1.36.3", Crictl: "v1.36.0"},
}

// containerdVersion is the container runtime of every host, whatever its Kubernetes version.
const containerdVersion = "v2.2.9"

// findRelease returns the row of version, or an error that lists the known ones.
func findRelease(version string) (release, error) {
	i := slices.IndexFunc(releases, func(r release) bool { return r.Kubernetes == version })
	if i < 0 {
		return release{}, fmt.Errorf("version %q is not in the lab's table (%s)", version, strings.Join(knownVersions(), ", "))
	}
	return releases[i], nil
}

// knownVersions lists the table's Kubernetes versions in its order.
func knownVersions() []string {
	var names []string
	for _, r := range releases {
		names = append(names, r.Kubernetes)
	}
	return names
}

// minor returns the second number of a version such as v1.36.3, as text.
func minor(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}
