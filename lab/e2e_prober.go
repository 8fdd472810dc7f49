package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// proberNotices shows that the requests which must not notice an upgrade would notice if something went wrong: one of the
// Service's pods is killed without grace, and the counts must show it.
func proberNotices(ctx context.Context, b *bed) error {
	pods, err := b.pods(ctx, "default", "app=web")
	if err != nil {
		return err
	}
	victim := pods[0]
	var on host
	for _, h := range b.nodes {
		if h.NodeName == victim.Spec.NodeName {
			on = h
		}
	}
	users := b.users(ctx)
	if err := pause(ctx, afterwards); err != nil {
		return err
	}
	_, killed := b.sh(ctx, on, fmt.Sprintf(
		"crictl stop --timeout 0 $(crictl ps --quiet --label io.kubernetes.pod.uid=%s)", victim.UID))
	waited := pause(ctx, afterwards)
	if users.err != nil {
		return users.err
	}
	results := users.prober.Stop()
	failed := 0
	errs := []error{killed, waited}
	for _, r := range results {
		b.measured.add(r.Target, r)
		errs = append(errs, r.Valid())
		if r.Target != apiTarget {
			failed += r.Failed
		}
	}
	if failed == 0 {
		errs = append(errs, errors.New("a pod of the Service was killed without grace and no request failed"))
	}
	// A pod that dies is known to be dead within seconds: more failures than that are not of its making.
	if limit := int(afterwards/time.Second) * serviceRate * len(b.nodes); failed >= limit {
		errs = append(errs, fmt.Errorf("%d requests failed, want fewer than all %d after the kill", failed, limit))
	}
	return errors.Join(errs...)
}
