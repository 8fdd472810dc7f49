// Package probe asks a service for answers the way its users do, and keeps count of those it did not get.
//
// A Target is asked at fixed times, whatever became of earlier requests: a slow answer delays no other (an open loop, so an
// outage is seen at its full length). Each request opens its own connection, has Limit to be answered, and is never
// retried. A request that could not be sent within lateness of its time is not sent at all and counts as due but unsent;
// Result.Valid refuses a result with too many of those, since silence there says nothing about the service.
package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// Limit is how long a request may take from dialling to the last byte of its answer.
	Limit = 2 * time.Second
	// lateness is how long after its time a request is still sent. Sending a missed batch all at once would count
	// requests without having watched the time in which they were due.
	lateness = 500 * time.Millisecond
)

// Target is one endpoint and how often it is asked.
type Target struct {
	Name string
	URL  string
	Rate int         // requests a second, at least 1
	TLS  *tls.Config // for https: the authorities to trust, and a client certificate where one is needed
}

// Prober is a running set of targets; Start makes it and Stop ends it.
type Prober struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	records []*record
}

// Start asks every target from now until Stop is called or ctx is done.
func Start(ctx context.Context, targets ...Target) *Prober {
	return start(ctx, sleepUntil, targets)
}

// start is Start with the function that waits for a request's time, which a test replaces to be late.
func start(ctx context.Context, wait waitFunc, targets []Target) *Prober {
	// Requests already sent are finished after a stop: they were due.
	sending := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	p := &Prober{stop: cancel}
	for _, target := range targets {
		r := &record{target: target}
		p.records = append(p.records, r)
		p.running.Go(func() { r.run(ctx, sending, wait) })
	}
	return p
}

// Stop sends nothing more, waits for the answers still due (at most Limit), and returns a result per target in their order.
func (p *Prober) Stop() []Result {
	p.stop()
	p.running.Wait()
	results := make([]Result, 0, len(p.records))
	for _, r := range p.records {
		results = append(results, summarize(r.target.Name, r.slots))
	}
	return results
}

// record is a target with what became of each request due.
type record struct {
	target Target
	mu     sync.Mutex
	slots  []slot
}

// slot is one due time and what became of it.
type slot struct {
	due  time.Time
	sent bool
	took time.Duration
	err  string // empty when answered
}

// waitFunc returns at time t, or before it with the context's error.
type waitFunc func(ctx context.Context, t time.Time) error

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// run sends each request at its time until ctx is done, and returns when all are answered.
func (r *record) run(ctx, sending context.Context, wait waitFunc) {
	client := &http.Client{
		Timeout:       Limit,
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: r.target.TLS},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var answers sync.WaitGroup
	defer answers.Wait()
	interval := time.Second / time.Duration(r.target.Rate)
	for due := time.Now(); wait(ctx, due) == nil; due = due.Add(interval) {
		sent := time.Since(due) <= lateness
		i := r.add(slot{due: due, sent: sent})
		if sent {
			answers.Go(func() { r.answer(i, ask(sending, client, r.target.URL)) })
		}
	}
}

func (r *record) add(s slot) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots = append(r.slots, s)
	return len(r.slots) - 1
}

func (r *record) answer(i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[i].took = time.Since(r.slots[i].due)
	if err != nil {
		r.slots[i].err = err.Error()
	}
}

// ask sends one request on a connection of its own and reads the whole answer; anything but status 200 is an error.
func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return nil
}
