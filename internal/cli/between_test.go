package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/internal/config"
	"github.com/kuberung/kuberung/steps"
)

// twoRungs is a climb whose first rung has nothing to do and whose second is to the target.
func twoRungs() []steps.Rung {
	return []steps.Rung{{From: "v1.34.4", To: "v1.35.4"}, {From: "v1.35.4", To: "v1.36.3"}}
}

// A climb that ends after a whole rung says where the cluster stands and how to go on.
func TestAClimbThatEndsBetweenRungs(t *testing.T) {
	c, err := config.Parse("prod.yaml", []byte(clusterFile(closedPort(t))), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	close(stopped)
	for _, tt := range []struct {
		name string
		stop chan struct{}
		code int
		want string
	}{
		{"a check says no", nil, codeCheck, "a check said no; "},
		{"stopped", stopped, codeStopped, engine.ErrStopped.Error() + "; "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.Data = t.TempDir() // two records of one millisecond would be in each other's way
			s := steps.Open(c, nil)
			defer s.Close()
			var out strings.Builder
			err := run(t.Context(), Process{Out: &out, Stop: tt.stop}, c, s, twoRungs(), nobodyAsked)
			code, text := codeOf(err)
			want := tt.want + "the climb ended between two rungs: prod is at v1.35.4, and whatever belongs to that is done\n" +
				"  the cluster could not be asked\nTo go on from here: kuberung upgrade -f prod.yaml --to v1.36.3"
			if code != tt.code || text != want {
				t.Errorf("got %d\n%s\nwant %d\n%s", code, text, tt.code, want)
			}
			if !strings.Contains(out.String(), "\nrung 1 of 2: v1.34.4 -> v1.35.4\n") || strings.Contains(out.String(), "rung 2") {
				t.Errorf("said\n%s", out.String())
			}
			if blocked := strings.Contains(out.String(), "BLOCKS  host-reachable"); blocked != (tt.stop == nil) {
				t.Errorf("findings are told: %v, in\n%s", blocked, out.String())
			}
		})
	}
}

// A later rung is only asked for when its steps are not those that were shown. Other reasons are no other steps.
func TestOnlyANewPlanIsAskedFor(t *testing.T) {
	rungTo := func(to, step, why string) steps.Rung {
		p := stopPlan()
		p[0].Lanes[0].Work[0].Name = step
		p[0].Lanes[0].Work[0].Needs = func(steps.Facts) string { return why }
		return steps.Rung{From: "v1.35.4", To: to, Plan: p}
	}
	promised := []steps.Rung{rungTo("v1.36.3", "drain", "for one reason")}
	refused := errors.New("no")
	for _, tt := range []struct {
		name  string
		left  []steps.Rung
		asked bool
	}{
		{"the same", []steps.Rung{rungTo("v1.36.3", "drain", "for another reason")}, false},
		{"nothing left", nil, false},
		{"another step", []steps.Rung{rungTo("v1.36.3", "install-kubelet", "for one reason")}, true},
		{"another version", []steps.Rung{rungTo("v1.36.4", "drain", "for one reason")}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := asPromised(Process{Out: &out}, promised, tt.left, func() error { return refused })
			if (err == refused) != tt.asked || strings.Contains(out.String(), "something has changed") != tt.asked {
				t.Errorf("%v, said\n%s", err, out.String())
			}
			if tt.asked && !strings.Contains(out.String(), tt.left[0].Plan[0].Lanes[0].Work[0].Name) {
				t.Errorf("the new plan is not shown in\n%s", out.String())
			}
		})
	}
}

func TestAbout(t *testing.T) {
	for seconds, want := range map[int]string{
		0: "less than a minute", 29: "less than a minute", 30: "about 1 min", 89: "about 1 min", 90: "about 2 min",
		3599: "about 1 h 0 min", 5400: "about 1 h 30 min",
	} {
		if got := about(seconds); got != want {
			t.Errorf("%d seconds are %q, want %q", seconds, got, want)
		}
	}
}
