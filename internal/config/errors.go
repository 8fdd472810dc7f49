package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in a file. Line and Column count from 1, Column in characters; a zero Line
// means the whole of File, which may also be the name of a flag.
type Position struct {
	File         string
	Line, Column int
}

// String gives "cluster.yaml:12:5", the form editors and terminals make clickable.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one mistake in a cluster file.
type Error struct {
	At      Position
	Message string // starts with the key it speaks of
}

// Error gives "file:line:column: message".
func (e Error) Error() string { return e.At.String() + ": " + e.Message }

// Errors is everything wrong with a cluster file, in the order of the file.
type Errors struct {
	List []Error // never empty
}

// Error gives one line for each mistake.
func (e *Errors) Error() string {
	lines := make([]string, len(e.List))
	for i, one := range e.List {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// result gives c when nothing is wrong with it, else everything that is.
func (r *reader) result(c *Cluster) (*Cluster, error) {
	if len(r.errs) == 0 {
		return c, nil
	}
	slices.SortStableFunc(r.errs, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	return nil, &Errors{List: r.errs}
}
