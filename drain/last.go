package drain

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// holdLimit is how long a pod is held back, counted from the first time: a replacement that cannot become ready must
// not stop the drain.
const holdLimit = 2 * time.Minute

// hold is what one pod on its way out has to do with being the last of its workload.
type hold struct {
	now        bool      // held back in this pass
	since      time.Time // first held back; zero if never
	replicated bool      // its controller was seen with another pod
}

// over reports whether the pod was held back for as long as any pod may be.
func (h hold) over() bool { return !h.since.IsZero() && time.Since(h.since) >= holdLimit }

// spare returns the due pods that may be evicted in this pass. The others are held back, because with all that go in
// this pass their controller would have no ready pod left.
func (e *eviction) spare(ctx context.Context, due []*evictee) []*evictee {
	c := newCensus(ctx, e.client)
	var unsure []*evictee
	for _, p := range due {
		if !p.hold.over() && mayBeLast(&p.pod) && !c.guarded(&p.pod) {
			unsure = append(unsure, p)
			continue
		}
		c.going[p.pod.UID] = true
	}
	for _, p := range unsure {
		reason := c.last(p)
		if ctx.Err() != nil {
			return nil // what could not be read any more is no reason
		}
		if reason != "" {
			e.holdBack(p, reason)
			continue
		}
		c.going[p.pod.UID] = true
	}
	going := slices.DeleteFunc(due, func(p *evictee) bool { return !c.going[p.pod.UID] })
	for _, p := range going {
		e.letGo(p)
	}
	return going
}

func (e *eviction) holdBack(p *evictee, reason string) {
	p.hold.now = true
	if p.hold.since.IsZero() {
		p.hold.since = time.Now()
	}
	e.note(p, "held back: "+reason)
}

// letGo forgets why a pod was held back, so that only its eviction is a reason from now on.
func (e *eviction) letGo(p *evictee) {
	if !p.hold.now {
		return
	}
	if p.hold.over() {
		e.log("%s: evicting it all the same, after %s; was %s", nameOf(&p.pod), holdLimit, p.reason)
	}
	p.hold.now = false
	p.reason = notEvicted
}

// mayBeLast reports whether anybody could miss the pod: it is ready, and of a controller that keeps a number of pods
// serving. A Job's pods work towards an end, and a DaemonSet's stand for their nodes.
func mayBeLast(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind != "DaemonSet" && owner.Kind != "Job" && alive(pod) && isReady(pod)
}

func alive(pod *corev1.Pod) bool { return !finished(pod) && pod.DeletionTimestamp == nil }
