package main

import (
	"strings"
	"testing"
)

func TestKubernetesIsStampedWithItsVersion(t *testing.T) {
	flags := kubernetesRecipe("v1.36.3").ldflags()
	for _, want := range []string{"-s -w", ".gitVersion=v1.36.3", ".gitMajor=1", ".gitMinor=36", ".gitTreeState=clean"} {
		if !strings.Contains(flags, want) {
			t.Errorf("no %q in %s", want, flags)
		}
	}
	if flags != kubernetesRecipe("v1.36.3").ldflags() {
		t.Error("the order of the flags changes, and with it what Go's cache holds")
	}
}

func TestSplitRef(t *testing.T) {
	for ref, want := range map[string][2]string{
		"registry.k8s.io/coredns/coredns:v1.14.2": {"coredns", "v1.14.2"},
		"registry.k8s.io/etcd:3.6.8-0":            {"etcd", "3.6.8-0"},
		webImage:                                  {"web", "1"},
	} {
		if component, tag := splitRef(ref); component != want[0] || tag != want[1] {
			t.Errorf("splitRef(%s) = %s, %s, want %v", ref, component, tag, want)
		}
	}
}

func TestReleasesAreComplete(t *testing.T) {
	for _, r := range releases {
		if !strings.HasPrefix(r.Kubernetes, "v1.") || !strings.HasPrefix(r.Crictl, "v1.") {
			t.Errorf("%+v lacks a version", r)
		}
		if minor(r.Crictl) > minor(r.Kubernetes) {
			t.Errorf("crictl %s is newer than Kubernetes %s", r.Crictl, r.Kubernetes)
		}
		if found, err := findRelease(r.Kubernetes); err != nil || found != r {
			t.Errorf("findRelease(%s) = %+v, %v", r.Kubernetes, found, err)
		}
	}
}
