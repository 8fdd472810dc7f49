package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// measurement is one line of a case's table.
type measurement struct{ name, value string }

// table is what a case measured, printed below its verdict.
type table struct{ lines []measurement }

// add notes a value; durations are rounded to what matters.
func (t *table) add(name string, value any) {
	if d, ok := value.(time.Duration); ok {
		value = d.Round(100 * time.Millisecond)
	}
	t.lines = append(t.lines, measurement{name, fmt.Sprint(value)})
}

// print writes the table, indented below the verdict.
func (t *table) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range t.lines {
		fmt.Fprintf(out, "  %s\t%s\n", m.name, m.value)
	}
	out.Flush()
}

// size is a number of bytes for people.
func size(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
