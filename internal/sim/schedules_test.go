package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule of faults")
	schedules = flag.Int("runs", 12, "schedules of faults that are played")
	howLong   = flag.Duration("for", 0, "time after which no further schedule is begun; 0: all are played")
)

// playOne plays one schedule in a bubble of its own.
func playOne(t *testing.T, s *schedule, change Change) (p *trial, broken []string) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if p, err = s.play(t, dir, change); err != nil {
			t.Fatal(err)
		}
	})
	if p == nil {
		return nil, nil
	}
	return p, p.w.Broken()
}

func TestSchedulesOfFaults(t *testing.T) {
	began, played, runs, broken, repaired := time.Now(), 0, 0, 0, 0
	struck := map[string]int{}
	for n := range *schedules {
		if *howLong > 0 && time.Since(began) > *howLong {
			break
		}
		s := newSchedule(*firstSeed + uint64(n))
		t.Run(fmt.Sprint(s.seed), func(t *testing.T) {
			p, found := playOne(t, s, nil)
			if p == nil {
				return
			}
			played++
			runs += p.runs
			repaired += p.repaired
			for name, n := range p.struck {
				struck[name] += n
			}
			if len(found) == 0 {
				return
			}
			broken++
			t.Errorf("%s\nbroken: %s\nreplay: make sim SEED=%d RUNS=1", s, strings.Join(found, "\nbroken: "), s.seed)
			if *schedules == 1 {
				t.Log(strings.Join(p.w.Log(), "\n"))
			}
		})
	}
	t.Logf("%d schedules from seed %d, %d runs of kuberung, %d manifests put back by hand, %d broken, in %s",
		played, *firstSeed, runs, repaired, broken, time.Since(began).Round(time.Millisecond))
	for _, name := range sortedKeys(struck) {
		t.Logf("%5d x %s", struck[name], name)
	}
}
