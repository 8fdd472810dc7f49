package steps

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// answer is how a server answers a request.
type answer func(http.ResponseWriter, *http.Request)

func says(code int, text string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// hangs until the asker goes away.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// fleet is the TLS servers of several hosts, in memory: with testing/synctest, hours of hanging take
// no time, and a slow machine hangs nothing.
type fleet struct {
	ca *authority

	mu    sync.Mutex
	pipes map[string]chan net.Conn // by host/address
	asked map[string][]string      // by host: "METHOD path body"
	down  map[string]bool          // hosts that no connection reaches
	mute  map[string]bool          // hosts that take a connection and say nothing
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return &fleet{
		ca: newAuthority(t), pipes: map[string]chan net.Conn{}, asked: map[string][]string{},
		down: map[string]bool{}, mute: map[string]bool{},
	}
}

// serve starts a server for what a host has at an address.
func (f *fleet) serve(t *testing.T, host, address string, a answer) {
	t.Helper()
	pipe := make(chan net.Conn)
	f.pipes[host+"/"+address] = pipe
	ctx, cancel := context.WithCancel(t.Context())
	server := &http.Server{
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{f.ca.server()}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			f.mu.Lock()
			f.asked[host] = append(f.asked[host], strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
			f.mu.Unlock()
			a(w, r)
		}),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeTLS(&memoryListener{ctx, pipe}, "", "")
	}()
	t.Cleanup(func() { cancel(); server.Close(); <-served })
}

type memoryListener struct {
	ctx  context.Context
	pipe chan net.Conn
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pipe:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{} }

// dial is a connection to a host's address, as a session's hosts make it.
func (f *fleet) dial(ctx context.Context, host, address string) (net.Conn, error) {
	f.mu.Lock()
	down, mute, pipe := f.down[host], f.mute[host], f.pipes[host+"/"+address]
	f.mu.Unlock()
	if down || pipe == nil && !mute {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	if mute {
		return ours, nil
	}
	select {
	case pipe <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fleet) set(state map[string]bool, host string, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state[host] = on
}

// told gives what a host was asked, and forgets it.
func (f *fleet) told(host string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked[host]
	f.asked[host] = nil
	return asked
}

// failover is a failover between the API servers of hosts a, b, … in this order.
func (f *fleet) failover(t *testing.T, answers map[string]answer) *failover {
	t.Helper()
	o := newFailover(&tls.Config{RootCAs: f.ca.pool()}, f.dial)
	var endpoints []endpoint
	for i, host := range sorted(answers) {
		address := []string{"10.0.0.1:6443", "10.0.0.2:6443", "10.0.0.3:6443"}[i]
		f.serve(t, host, address, answers[host])
		endpoints = append(endpoints, endpoint{host, address})
	}
	o.setEndpoints(endpoints)
	t.Cleanup(func() { closeIdle(o.transport) })
	return o
}

func closeIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
