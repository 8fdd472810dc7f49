package steps

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// reachAPI connects to the API through whichever control plane answers first: a lock is asked for before anything else
// is looked at.
func (s *Session) reachAPI(ctx context.Context) error {
	if s.api() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	answers := make(chan Host)
	for _, h := range controlPlanes(s.Cluster) {
		wg.Go(func() { answers <- s.observeHost(ctx, h) })
	}
	go func() { wg.Wait(); close(answers) }()
	seen := map[string]Host{}
	err := s.connectAPI(ctx, seen) // which says that nobody was asked
	for h := range answers {
		if seen[h.Name] = h; s.api() == nil {
			err = s.connectAPI(ctx, seen)
		}
		if err == nil {
			cancel() // the others are not waited for
		}
	}
	return err
}

// clusterTime is the time by the API server's clock: holders write their heartbeats by it, and others judge them by it,
// so no machine's own clock matters. https://www.rfc-editor.org/rfc/rfc9110#field.date
func (s *Session) clusterTime() time.Time {
	s.mu.Lock()
	f := s.transport
	s.mu.Unlock()
	if f == nil {
		return time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.ahead)
}

// tell takes note of the API server's time.
func (f *failover) tell(response *http.Response) {
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead = time.Until(at)
}
