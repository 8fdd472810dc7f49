package main

import (
	"regexp"
	"strings"
)

// module is a Go module at a version, as in a go.mod requirement.
type module struct{ Path, Version string }

// buildModule is the last element of the throw-away module's path, and so the name of its own binary.
const buildModule = "build"

var (
	goLine      = regexp.MustCompile(`(?m)^go \S+$`)
	godebugLine = regexp.MustCompile(`(?m)^godebug \S+$`)
	stagingLine = regexp.MustCompile(`(?m)^\s+(k8s\.io/\S+) => \./staging/`)
)

// goMod writes the go.mod of a throw-away module that builds the commands of requires[0], whose own go.mod is base.
//
// A main module inherits neither the language version, nor the GODEBUG defaults, nor the replacements of what it
// requires, so all three are repeated. k8s.io/kubernetes replaces its staging modules by folders that the published
// module does not contain; each is published as v0.X.Y beside v1.X.Y and is pinned to that.
func goMod(base string, requires []module) string {
	var b strings.Builder
	b.WriteString("module lab.invalid/" + buildModule + "\n\n")
	for _, line := range append(goLine.FindAllString(base, 1), godebugLine.FindAllString(base, -1)...) {
		b.WriteString(line + "\n")
	}
	for _, m := range requires {
		b.WriteString("require " + m.Path + " " + m.Version + "\n")
	}
	staging := "v0." + strings.TrimPrefix(requires[0].Version, "v1.")
	for _, match := range stagingLine.FindAllStringSubmatch(base, -1) {
		b.WriteString("replace " + match[1] + " => " + match[1] + " " + staging + "\n")
	}
	return b.String()
}
