package etcdbackup

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// handoverLimit bounds the whole move; an election takes about a second.
const handoverLimit = 15 * time.Second

// MoveLeader makes the leader, from, hand leadership to the member with the ID to, and waits until it sees the new
// leader. If to leads already, nothing is done.
func MoveLeader(ctx context.Context, access Access, from Endpoint, to uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, handoverLimit, fmt.Errorf("not done after %s", handoverLimit))
	defer cancel()
	client, err := access.open(ctx, from)
	if err != nil {
		return fmt.Errorf("move etcd leader from %s: %w", from, err)
	}
	defer client.Close()
	if err := moveLeader(ctx, client, to); err != nil {
		return fmt.Errorf("move etcd leader from %s to member %x: %w", from, to, err)
	}
	return nil
}

func moveLeader(ctx context.Context, client *clientv3.Client, to uint64) error {
	status, err := client.Status(ctx, client.Endpoints()[0])
	switch {
	case err != nil:
		return because(ctx, "status", err)
	case status.Leader == to:
		return nil
	case status.Leader != status.Header.GetMemberId():
		return fmt.Errorf("it is not the leader, %s is", hexOrNone(status.Leader))
	}
	if _, err := client.MoveLeader(ctx, to); err != nil {
		return because(ctx, "hand over", err)
	}
	return awaitLeader(ctx, client, to)
}

// awaitLeader asks the old leader until it follows the new one.
func awaitLeader(ctx context.Context, client *clientv3.Client, to uint64) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	seen := "nothing"
	for {
		status, err := client.Status(ctx, client.Endpoints()[0])
		switch {
		case err != nil:
			seen = err.Error()
		case status.Leader == to:
			return nil
		default:
			seen = "leader " + hexOrNone(status.Leader)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("handed over, but saw %s: %w", seen, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
