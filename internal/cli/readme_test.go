package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the README shows of plans and checks is what is printed, line by line; "…" stands for what is left out.
func TestTheREADMEShowsWhatIsPrinted(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(readme), "## What it looks like")
	part, _, found := strings.Cut(part, "\n## ")
	files, err := filepath.Glob(filepath.Join("testdata", "plan", "*.txt"))
	if err != nil || !found || len(files) == 0 {
		t.Fatalf("no such part of the README, or no plans: %v", err)
	}
	printed := "kuberung: " + errBlocked.Error() + "\n"
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		printed += string(data)
	}
	lines := 0
	for i, block := range strings.Split(part, "```") {
		if i%2 == 0 {
			continue // text between two blocks
		}
		for line := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
			shown, cut := strings.CutSuffix(line, "…")
			if !cut {
				shown += "\n"
			}
			if strings.HasPrefix(line, "$ ") || strings.TrimSpace(line) == "" {
				continue
			}
			lines++
			if !strings.Contains("\n"+printed, "\n"+shown) {
				t.Errorf("nothing prints the line\n%s", line)
			}
		}
	}
	if lines < 20 {
		t.Errorf("only %d lines are shown", lines)
	}
}
