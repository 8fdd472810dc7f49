package etcdbackup

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// drip brings one byte after each pause, then nothing until its context ends, as a stream from etcd does.
type drip struct {
	ctx    context.Context
	pauses []time.Duration
}

func (d *drip) Read(p []byte) (int, error) {
	if len(d.pauses) == 0 {
		<-d.ctx.Done()
		return 0, d.ctx.Err()
	}
	timer := time.NewTimer(d.pauses[0])
	defer timer.Stop()
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-timer.C:
		d.pauses = d.pauses[1:]
		return 1, nil
	}
}

// A slow stream may take as long as it needs, a silent one is given up.
func TestStreamThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, watchdog := watch(t.Context())
		defer watchdog.Stop()
		const slow = stall - time.Second
		start := time.Now()
		err := store(ctx, filepath.Join(t.TempDir(), "s.part"), alive{&drip{ctx, []time.Duration{slow, slow, slow}}, watchdog})
		if took := time.Since(start); took != 3*slow+stall || err == nil || !strings.HasPrefix(err.Error(), "stream broke after 3 bytes: nothing came for 1m0s") {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
