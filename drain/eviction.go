package drain

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	interval = time.Second // between two lists of the node's pods
	width    = 10          // evictions in flight
	reminder = time.Minute // between two lines while nothing changes

	notEvicted = "not evicted yet"
)

// eviction moves a fixed set of pods off one node. All its state belongs to the goroutine of run.
type eviction struct {
	client kubernetes.Interface
	node   string
	o      Options
	pods   []*evictee // sorted by name
	said   time.Time  // when the last line was logged
}

// evictee is one pod on its way out.
type evictee struct {
	pod    corev1.Pod // as last listed
	next   time.Time  // not evicted again before
	reason string     // why it is still there
	doubt  doubt      // whether its evictions are refused for good
	hold   hold       // whether it has to wait for another of its workload
}

func newEviction(client kubernetes.Interface, node string, o Options, pods []corev1.Pod) *eviction {
	e := &eviction{client: client, node: node, o: o, said: time.Now()}
	for _, pod := range pods {
		e.pods = append(e.pods, &evictee{pod: pod, reason: notEvicted})
	}
	return e
}

// run evicts in passes until the pods are gone. Each pass lists first: an eviction is sent only for a pod that was
// seen, with its UID, on this node a moment before.
func (e *eviction) run(ctx context.Context) error {
	for {
		if err := e.refresh(ctx); err != nil && ctx.Err() == nil {
			e.unreadable(err)
		} else if err == nil {
			if len(e.pods) == 0 {
				return nil
			}
			if err := e.pass(ctx); err != nil {
				return e.blocked(err)
			}
		}
		e.remind(ctx)
		if !sleep(ctx, interval) {
			return e.blocked(context.Cause(ctx))
		}
	}
}

// refresh reads the pods bound to the node and forgets those that are no longer among them. A pod never changes its
// node, so a UID that is not listed is gone, whatever else has its name.
func (e *eviction) refresh(ctx context.Context) error {
	var list *corev1.PodList
	err := call(ctx, func(ctx context.Context) (err error) {
		onNode := fields.OneTermEqualSelector("spec.nodeName", e.node).String()
		list, err = e.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: onNode})
		return err
	})
	if err != nil {
		return err
	}
	seen := make(map[types.UID]corev1.Pod, len(list.Items))
	for _, pod := range list.Items {
		seen[pod.UID] = pod
	}
	var left []*evictee
	for _, p := range e.pods {
		pod, ok := seen[p.pod.UID]
		if !ok {
			e.log("%s is gone", nameOf(&p.pod))
			continue
		}
		p.pod = pod
		left = append(left, p)
	}
	e.pods = left
	return nil
}

// unreadable keeps the reason why the state of the pods is unknown.
func (e *eviction) unreadable(err error) {
	for _, p := range e.pods {
		p.reason = "cannot list the node's pods: " + err.Error()
	}
}

// pass evicts the pods that are due and not held back, some at a time, and returns an error if one can never go.
func (e *eviction) pass(ctx context.Context) error {
	now := time.Now()
	var due []*evictee
	for _, p := range e.pods {
		switch {
		case p.pod.DeletionTimestamp != nil:
			e.note(p, leaving(&p.pod, now))
		case !now.Before(p.next):
			due = append(due, p)
		}
	}
	due = e.spare(ctx, due)
	answers := make([]error, len(due))
	var group errgroup.Group
	group.SetLimit(width)
	for i, p := range due {
		group.Go(func() error {
			answers[i] = call(ctx, func(ctx context.Context) error { return evict(ctx, e.client, &p.pod) })
			return nil
		})
	}
	_ = group.Wait() // the answers are kept one by one
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var forGood error
	for i, p := range due {
		if e.heard(p, answers[i]) {
			forGood = ErrForGood
		}
	}
	return forGood
}

// heard notes the answer to one eviction and reports whether it is final.
func (e *eviction) heard(p *evictee, answer error) (final bool) {
	verdict, reason := judge(answer)
	p.next = time.Now().Add(pauseAfter(answer, e.o.RetryDelay))
	if !unanswered(answer) || p.reason == notEvicted {
		e.note(p, reason)
	}
	return p.doubt.confirmed(verdict == doubtful) || verdict == hopeless
}

// note keeps why a pod is still there, and says so when it changes.
func (e *eviction) note(p *evictee, reason string) {
	if p.reason != reason {
		p.reason = reason
		e.log("%s: %s", nameOf(&p.pod), reason)
	}
}

// remind says what is waited for when nothing was said for a while.
func (e *eviction) remind(ctx context.Context) {
	if len(e.pods) == 0 || time.Since(e.said) < reminder {
		return
	}
	deadline, _ := ctx.Deadline()
	first := e.pods[0]
	e.log("pods left: %d, time left: %s; %s: %s", len(e.pods), time.Until(deadline).Round(time.Second), nameOf(&first.pod), first.reason)
}

func (e *eviction) log(format string, args ...any) {
	e.said = time.Now()
	e.o.Logf(format, args...)
}

// blocked names the pods that are left.
func (e *eviction) blocked(err error) error {
	blocked := &BlockedError{Node: e.node, Err: err}
	for _, p := range e.pods {
		blocked.Pods = append(blocked.Pods, Blocked{nameOf(&p.pod), p.reason})
	}
	return blocked
}
