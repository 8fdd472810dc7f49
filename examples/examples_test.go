// Package examples_test holds that the example cluster files are good ones.
package examples_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kuberung/kuberung/internal/config"
)

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %q, %v, want at least three cluster files", files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse(file, data, "/etc/kuberung")
			if err != nil {
				t.Fatal(err)
			}
			if c.Target == "" {
				t.Error("an example names its target")
			}
			// The directory of artifacts has one for each release in it. Named by a release it would be one of those.
			if _, err := version.ParseGeneric(filepath.Base(c.Artifacts)); err == nil {
				t.Errorf("artifacts are looked for in %s, where releases are", filepath.Join(c.Artifacts, c.Target))
			}
		})
	}
}

func TestShapes(t *testing.T) {
	tests := []struct {
		file           string
		controlPlanes  int
		workers, batch int
	}{
		{"single-node.yaml", 1, 0, 1},
		{"small.yaml", 1, 1, 1},
		{"three-control-planes.yaml", 3, 4, 2},
		{"bastion.yaml", 1, 2, 1},
		{"climb.yaml", 3, 2, 1},
	}
	for _, tt := range tests {
		data, err := os.ReadFile(tt.file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(tt.file, data, "/etc/kuberung")
		if err != nil {
			t.Fatal(err)
		}
		roles := map[string]int{}
		for _, h := range c.Hosts {
			roles[h.Role]++
		}
		if roles[config.ControlPlane] != tt.controlPlanes || roles[config.Worker] != tt.workers || c.Workers.Batch != tt.batch {
			t.Errorf("%s has %v and a batch of %d, want %d control planes, %d workers, %d",
				tt.file, roles, c.Workers.Batch, tt.controlPlanes, tt.workers, tt.batch)
		}
	}
}

// The example of a climb is the one whose workers move once; all others leave that as it is without a word.
func TestClimb(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(file, data, "/etc/kuberung")
		if err != nil {
			t.Fatal(err)
		}
		want := config.EachRung
		if file == "climb.yaml" {
			want = config.Once
		}
		if c.Workers.Climb != want {
			t.Errorf("workers of %s climb %s, want %s", file, c.Workers.Climb, want)
		}
	}
}
