package main

import (
	"testing"
	"time"
)

func TestSinceIn(t *testing.T) {
	began := time.Date(2026, 12, 1, 3, 12, 45, 300, time.Local)
	off, err := sinceIn("root@vm is at work on this cluster: upgrade to v1.36.3, since 2026-12-01 03:12:47, pid 4711", began)
	if err != nil || off.Round(time.Second) != 2*time.Second {
		t.Errorf("%v off, error %v", off, err)
	}
	if _, err := sinceIn("root@vm is at work on this cluster: upgrade to v1.36.3, pid 4711", began); err == nil {
		t.Error("a message without a time has one")
	}
}
