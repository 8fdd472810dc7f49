package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// balancer sends each connection to the next of its endpoints, as kube-proxy does, whether that endpoint lives or not.
type balancer struct {
	listener  net.Listener
	mu        sync.Mutex
	endpoints []string
	next      int
}

func newBalancer(t *testing.T, endpoints ...*httptest.Server) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener}
	for _, e := range endpoints {
		b.endpoints = append(b.endpoints, e.Listener.Addr().String())
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go b.forward(client)
		}
	}()
	return b
}

func (b *balancer) forward(client net.Conn) {
	defer client.Close()
	b.mu.Lock()
	endpoint := b.endpoints[b.next%len(b.endpoints)]
	b.next++
	b.mu.Unlock()
	server, err := net.Dial("tcp", endpoint)
	if err != nil {
		return
	}
	defer server.Close()
	go io.Copy(server, client)
	io.Copy(client, server)
}

func (b *balancer) remove(endpoint *httptest.Server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.endpoints[:0]
	for _, e := range b.endpoints {
		if e != endpoint.Listener.Addr().String() {
			kept = append(kept, e)
		}
	}
	b.endpoints = kept
}

// endpoint is a server that tells through answered how often it was asked.
func endpoint(t *testing.T, answered *atomic.Int64) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answered.Add(1) }))
	t.Cleanup(s.Close)
	return s
}

// kill ends an endpoint as a dead process ends: nobody is told.
func kill(s *httptest.Server) {
	s.Listener.Close()
	s.CloseClientConnections()
}

// waitFor returns when count is at least n, and fails the test when that takes too long.
func waitFor(t *testing.T, what string, count func() int, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); count() < n; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d %s after 20 s, want %d", count(), what, n)
		}
	}
}

func (b *balancer) taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// The prober's own proof: an endpoint that leaves the Service before it stops costs no request, one killed without grace does.
func TestNoticesAnEndpointKilledWithoutGrace(t *testing.T) {
	for _, test := range []struct {
		name     string
		graceful bool
	}{{"taken out first", true}, {"killed without grace", false}} {
		t.Run(test.name, func(t *testing.T) {
			var answered atomic.Int64
			first, second := endpoint(t, &answered), endpoint(t, &answered)
			b := newBalancer(t, first, second)
			p := Start(t.Context(), Target{Name: "web", URL: "http://" + b.listener.Addr().String(), Rate: 100})
			waitFor(t, "requests answered", func() int { return int(answered.Load()) }, 10)
			if test.graceful {
				b.remove(second)
				second.Close() // waits for what it has begun
			} else {
				kill(second)
			}
			waitFor(t, "connections", b.taken, b.taken()+20)
			result := p.Stop()[0]

			if result.OK+result.Failed != result.Sent || len(result.Failures) != result.Failed {
				t.Errorf("counts do not add up: %v with %d failures listed", result, len(result.Failures))
			}
			if test.graceful && result.Failed != 0 {
				t.Errorf("%d requests failed, want none: %v", result.Failed, result.Failures)
			}
			if !test.graceful && (result.Failed < 5 || result.LongestOutage == 0) {
				t.Errorf("%v, want about half of 20 requests failed", result)
			}
			for _, f := range result.Failures {
				if f.Time.IsZero() || f.Target != "web" || f.Error == "" {
					t.Errorf("failure without time, target or reason: %+v", f)
				}
			}
		})
	}
}

// Each request has a connection of its own, and one that hangs neither delays the others nor is tried again.
func TestOpenLoop(t *testing.T) {
	var asked, connections atomic.Int64
	hang := make(chan bool)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			<-hang
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	defer close(hang)
	p := Start(t.Context(), Target{Name: "web", URL: s.URL, Rate: 50})
	waitFor(t, "requests", func() int { return int(asked.Load()) }, 20)
	result := p.Stop()[0]

	if result.Failed != 2 || result.Sent != int(asked.Load()) {
		t.Errorf("%v with %d asked, want the hanging and the refused one failed and none tried again", result, asked.Load())
	}
	if got := int(connections.Load()); got != result.Sent {
		t.Errorf("%d connections for %d requests", got, result.Sent)
	}
	var reasons []string
	for _, f := range result.Failures {
		reasons = append(reasons, f.Error)
	}
	all := strings.Join(reasons, "\n")
	if !strings.Contains(all, "Timeout") || !strings.Contains(all, "503") {
		t.Errorf("reasons are %q, want a timeout and a 503", reasons)
	}
}

// A prober that was held up says so instead of passing for a healthy service.
func TestReportsUndersending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		waits := 0
		late := func(ctx context.Context, due time.Time) error {
			if waits++; waits == 5 {
				due = due.Add(10 * time.Second) // the machine does nothing else for ten seconds
			}
			if waits > 20*30 {
				cancel()
			}
			return sleepUntil(ctx, due)
		}
		// Nothing listens there, so no answer is waited for: only what was sent matters here.
		p := start(ctx, late, []Target{{Name: "web", URL: "unreachable:", Rate: 20}})
		<-ctx.Done()
		result := p.Stop()[0]
		if err := result.Valid(); err == nil || !strings.Contains(err.Error(), "of 600 requests due were sent") {
			t.Errorf("Valid = %v for %v, want it refused", err, result)
		}
		// Ten seconds of twenty a second, less the half second in which late ones are still sent.
		if want := 600 - 190; result.Sent < want-1 || result.Sent > want+1 {
			t.Errorf("%d sent, want about %d", result.Sent, want)
		}
	})
}

func TestValid(t *testing.T) {
	for _, test := range []struct {
		due, sent int
		valid     bool
	}{{0, 0, false}, {100, 94, false}, {100, 95, true}, {100, 100, true}, {1, 0, false}} {
		err := Result{Target: "web", Due: test.due, Sent: test.sent}.Valid()
		if (err == nil) != test.valid {
			t.Errorf("%d of %d sent: %v, want valid %v", test.sent, test.due, err, test.valid)
		}
	}
}

// An outage lasts from the first failure in a row to the next answer; what was not sent decides nothing.
func TestSummarize(t *testing.T) {
	begin := time.Unix(1000, 0)
	slots := func(pattern string) []slot {
		var all []slot
		for i, c := range pattern {
			s := slot{due: begin.Add(time.Duration(i) * time.Second), sent: c != '-', took: time.Millisecond}
			if c == 'x' {
				s.err = "refused"
			}
			all = append(all, s)
		}
		return all
	}
	for _, test := range []struct{ pattern, want string }{
		{"....", "4 due, 4 sent, 4 ok, 0 failed, longest outage 0s, slowest answer 1ms"},
		{".x.", "3 due, 3 sent, 2 ok, 1 failed, longest outage 1s, slowest answer 1ms"},
		{".xx-x.x.", "8 due, 7 sent, 3 ok, 4 failed, longest outage 4s, slowest answer 1ms"},
		{".x.xxx", "6 due, 6 sent, 2 ok, 4 failed, longest outage 2s, slowest answer 1ms"},
		{"--", "2 due, 0 sent, 0 ok, 0 failed, longest outage 0s, slowest answer 0s"},
	} {
		if diff := cmp.Diff(summarize("web", slots(test.pattern)).String(), test.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", test.pattern, diff)
		}
	}
	failure := summarize("web", slots(".x"))
	if got, want := fmt.Sprint(failure.Failures), "[00:16:41.000 web after 1ms: refused]"; got != want {
		t.Errorf("failures %s, want %s", got, want)
	}
}
