package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// Why a drain ended early; a BlockedError unwraps to them.
var (
	ErrTimeout = errors.New("time is up")
	ErrForGood = errors.New("the API server refuses an eviction, and waiting will not help")
	ErrReturns = errors.New("new pods keep coming to the node")
)

// rounds bounds how often pods that arrived during the drain, past the cordon by a toleration or a fixed node name, are
// evicted too.
const rounds = 5

// Node evicts every pod that may go and waits until all are gone from the node. The node should be cordoned.
// A pod without the consent it needs is a *RefusedError and nothing is evicted. A drain that ends early, also by the
// end of ctx, is a *BlockedError with the pods left. Errors of the network or the API server are waited out until
// Timeout.
func Node(ctx context.Context, client kubernetes.Interface, node string, o Options) error {
	o = o.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("%w after %s", ErrTimeout, o.Timeout))
	defer cancel()
	for round := range rounds {
		survey, err := lookUntil(ctx, client, node, o)
		if err != nil {
			return &BlockedError{Node: node, Err: err}
		}
		if len(survey.Refused) > 0 {
			return &RefusedError{Node: node, Refused: survey.Refused}
		}
		if len(survey.Evict) == 0 {
			return nil
		}
		if round == 0 {
			if err := neverMovable(ctx, client, node, o, survey.Evict); err != nil {
				return err
			}
		}
		if err := newEviction(client, node, o, survey.Evict).run(ctx); err != nil {
			return err
		}
	}
	return stillComing(ctx, client, node, o)
}

// neverMovable ends the drain before it disturbs anyone if a pod has more budgets than the eviction API accepts. Whether
// budgets can be read does not matter yet: what they allow is decided eviction by eviction.
func neverMovable(ctx context.Context, client kubernetes.Interface, node string, o Options, pods []corev1.Pod) error {
	hindrances, err := Budgets(ctx, client, pods)
	if err != nil {
		o.Logf("%v", err)
		return nil
	}
	var blocked []Blocked
	for _, h := range hindrances {
		if len(h.Budgets) > 1 {
			blocked = append(blocked, Blocked{h.Pod, h.Reason})
		}
	}
	if len(blocked) == 0 {
		return nil
	}
	return &BlockedError{Node: node, Pods: blocked, Err: ErrForGood}
}

// lookUntil repeats Look until it answers, fails for good, or the drain's time is up.
func lookUntil(ctx context.Context, client kubernetes.Interface, node string, o Options) (Survey, error) {
	var doubt doubt
	for {
		survey, err := Look(ctx, client, node, o)
		if err == nil || doubt.confirmed(!mayPass(err)) {
			return survey, err
		}
		o.Logf("%v", err)
		if !sleep(ctx, o.RetryDelay) {
			return survey, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// stillComing decides after the last round: a node that is empty now is drained all the same.
func stillComing(ctx context.Context, client kubernetes.Interface, node string, o Options) error {
	survey, err := lookUntil(ctx, client, node, o)
	if err != nil {
		return &BlockedError{Node: node, Err: err}
	}
	if len(survey.Evict) == 0 && len(survey.Refused) == 0 {
		return nil
	}
	blocked := &BlockedError{Node: node, Err: ErrReturns}
	for i := range survey.Evict {
		pod := &survey.Evict[i]
		blocked.Pods = append(blocked.Pods, Blocked{nameOf(pod), "arrived " + pod.CreationTimestamp.UTC().Format(time.RFC3339)})
	}
	for _, r := range survey.Refused {
		blocked.Pods = append(blocked.Pods, Blocked{r.Pod, r.Reason})
	}
	return blocked
}
