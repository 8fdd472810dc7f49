package sim

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule of faults")
	schedules = flag.Int("runs", 8, "schedules of faults that are played")
	howLong   = flag.Duration("for", 0, "time after which no further schedule is begun; 0: all are played")
)

// playOne plays one schedule in a bubble of its own.
func playOne(t *testing.T, s *schedule, change Change) *trial {
	t.Helper()
	dir := t.TempDir()
	var p *trial
	synctest.Test(t, func(t *testing.T) {
		var err error
		if p, err = s.play(t, dir, change); err != nil {
			t.Fatal(err)
		}
	})
	return p
}

// tally counts what was played.
type tally struct {
	mu                    sync.Mutex
	began                 time.Time
	begun, played, broken int
	runs, repaired        int
	struck                map[string]int
}

// next gives the seed to play next, as long as there is one.
func (y *tally) next() (uint64, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.begun == *schedules || *howLong > 0 && time.Since(y.began) > *howLong {
		return 0, false
	}
	y.begun++
	return *firstSeed + uint64(y.begun-1), true
}

func (y *tally) add(p *trial) (broken []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.played++
	y.runs += p.runs
	y.repaired += p.repaired
	for name, n := range p.struck {
		y.struck[name] += n
	}
	broken = p.w.Broken()
	if len(broken) > 0 {
		y.broken++
	}
	return broken
}

func TestSchedulesOfFaults(t *testing.T) {
	y := &tally{began: time.Now(), struck: map[string]int{}}
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for seed, more := y.next(); more; seed, more = y.next() {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					s := newSchedule(seed)
					p := playOne(t, s, nil)
					if found := y.add(p); len(found) > 0 {
						t.Errorf("%s\nbroken: %s\nreplay: make sim SEED=%d RUNS=1", s, strings.Join(found, "\nbroken: "), s.seed)
						if *schedules == 1 {
							t.Log(strings.Join(p.w.Log(), "\n"))
						}
					}
				})
			}
		})
	}
	players.Wait()
	t.Logf("%d schedules from seed %d, %d runs of kuberung, %d manifests put back by hand, %d broken, in %s",
		y.played, *firstSeed, y.runs, y.repaired, y.broken, time.Since(y.began).Round(time.Millisecond))
	for _, name := range sortedKeys(y.struck) {
		t.Logf("%5d x %s", y.struck[name], name)
	}
}
