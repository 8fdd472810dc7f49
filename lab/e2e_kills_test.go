package main

import (
	"slices"
	"testing"
	"time"
)

// The same seed draws the same lives, another one others; together they end before the work does.
func TestLives(t *testing.T) {
	const whole = 5 * time.Minute
	once, again, other := lives(7, kills, whole), lives(7, kills, whole), lives(8, kills, whole)
	if !slices.Equal(once, again) || slices.Equal(once, other) || len(once) != kills {
		t.Errorf("drawn %v, %v, %v", once, again, other)
	}
	for seed := range uint64(100) {
		var sum time.Duration
		for _, life := range lives(seed, kills, whole) {
			sum += max(0, life-lookTime)
		}
		if sum < whole/2 || sum > whole*6/5 {
			t.Errorf("seed %d: the runs work for %v of %v", seed, sum, whole)
		}
	}
}

func TestWhereARunWasKilled(t *testing.T) {
	dir := writeRun(t, sampleEvents)
	events, err := readEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := under(events[:3]); got != "in [snapshot: cluster: take-snapshot]" {
		t.Errorf("in the middle of a step: %s", got)
	}
	if got := under(events[:4]); got != "after snapshot: cluster: take-snapshot" {
		t.Errorf("between two steps: %s", got)
	}
	if got := under(events[:2]); got != "before its first step" {
		t.Errorf("before any step: %s", got)
	}
}
