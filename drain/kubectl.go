package drain

import (
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	kubectl "k8s.io/kubectl/pkg/drain"
)

// newHelper builds kubectl's drain helper; nothing else does. Its zero values are traps: grace period 0 kills at once, retry
// delay 0 is a busy loop, timeout 0 waits for ever, nil writers panic, a nil context is replaced by one that never ends.
//
// Force and DeleteEmptyDirData are set because they are all or nothing; the filters given here, which run after the
// library's own, put the limits back pod by pod.
func newHelper(ctx context.Context, client kubernetes.Interface, o Options, filters ...kubectl.PodFilter) *kubectl.Helper {
	return &kubectl.Helper{
		Ctx:                  ctx,
		Client:               client,
		Force:                true,
		DeleteEmptyDirData:   true,
		IgnoreAllDaemonSets:  true,
		GracePeriodSeconds:   -1,
		Timeout:              o.Timeout,
		EvictErrorRetryDelay: o.RetryDelay,
		AdditionalFilters:    filters,
		ChunkSize:            500,
		Out:                  io.Discard,
		ErrOut:               io.Discard,
	}
}

// setSchedulable cordons (false) or uncordons (true) by kubectl's library.
func setSchedulable(ctx context.Context, client kubernetes.Interface, node *corev1.Node, schedulable bool) error {
	return kubectl.RunCordonOrUncordon(newHelper(ctx, client, Options{}.withDefaults()), node, !schedulable)
}

// podsToDelete returns the pods on a node that kubectl and the filters let go. An error means that the question could
// not be answered, because the filters given here refuse without one.
func podsToDelete(ctx context.Context, client kubernetes.Interface, node string, o Options, filters ...kubectl.PodFilter) ([]corev1.Pod, error) {
	list, errs := newHelper(ctx, client, o, filters...).GetPodsForDeletion(node)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return list.Pods(), nil
}
