package steps

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// failover sends a request to one API server and, while that one restarts, to another. Requests
// that read may be sent again; one that changes something goes elsewhere only if no connection
// could be made, for then nobody has seen it.
type failover struct {
	tls     *tls.Config
	dial    func(ctx context.Context, host, address string) (net.Conn, error)
	outside *outside // nil: there is no other way to the API

	mu        sync.Mutex
	endpoints []endpoint // the one that answered last comes first
	via       map[string]string
	transport http.RoundTripper
	ahead     time.Duration // the clock of the API server that answered last, against ours
}

// attemptLimit is how long one API server may take. An API server without etcd holds requests for
// about half a minute before it gives up.
const attemptLimit = 20 * time.Second

func newFailover(cfg *tls.Config, dial func(context.Context, string, string) (net.Conn, error)) *failover {
	f := &failover{tls: cfg, dial: dial}
	f.transport = utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig: cfg.Clone(), TLSHandshakeTimeout: 10 * time.Second,
		DialContext: f.dialEndpoint, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		Proxy: direct,
	})
	return f
}

// direct keeps the proxy of the operator's environment out: the way goes through SSH.
func direct(*http.Request) (*url.URL, error) { return nil, nil }

func (f *failover) setEndpoints(endpoints []endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints = append([]endpoint(nil), endpoints...)
	if f.outside != nil {
		f.endpoints = append(f.endpoints, f.outside.endpoint())
	}
	f.via = map[string]string{}
	for _, e := range endpoints {
		f.via[e.address] = e.host
	}
}

func (f *failover) dialEndpoint(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	host, ok := f.via[address]
	f.mu.Unlock()
	if !ok {
		return nil, &dialError{fmt.Errorf("%s is no API server of this cluster", address)}
	}
	conn, err := f.dial(ctx, host, address)
	if err != nil {
		return nil, &dialError{fmt.Errorf("API server of %s: %w", host, err)}
	}
	return conn, nil
}

// dialError marks a request that was never sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// RoundTrip implements http.RoundTripper.
func (f *failover) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	candidates := append([]endpoint(nil), f.endpoints...)
	f.mu.Unlock()
	err := errors.New("no API server is known")
	failed := map[bool]error{} // the last of each way: through a host or not
	var response *http.Response
	for i, e := range candidates {
		if i > 0 && req.Context().Err() != nil {
			break
		}
		if response != nil {
			response.Body.Close()
		}
		response, err = f.try(req, e)
		if !again(req, response, err) {
			f.prefer(e)
			return response, err
		}
		failed[e.host != ""] = err
	}
	if err != nil && failed[true] != nil && failed[false] != nil {
		err = fmt.Errorf("%w; %w", failed[true], failed[false])
	}
	return response, err
}

// again reports whether the next API server should be asked.
func again(req *http.Request, response *http.Response, err error) bool {
	if err != nil {
		var dial *dialError
		return reads(req) || errors.As(err, &dial)
	}
	return reads(req) && response.StatusCode >= http.StatusInternalServerError
}

func reads(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

func (f *failover) prefer(e endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, known := range f.endpoints {
		if known == e {
			copy(f.endpoints[1:i+1], f.endpoints[:i])
			f.endpoints[0] = e
		}
	}
}

// try sends the request to one API server, with a limit of its own.
func (f *failover) try(req *http.Request, e endpoint) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), attemptLimit,
		fmt.Errorf("API server of %s did not answer within %s", e.owner(), attemptLimit))
	attempt, transport := req.Clone(ctx), f.transport
	if f.outside != nil && e == f.outside.endpoint() {
		transport = f.outside
	}
	attempt.URL.Scheme, attempt.URL.Host, attempt.Host = "https", e.address, ""
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			cancel()
			return nil, err
		}
		attempt.Body = body
	}
	response, err := transport.RoundTrip(attempt)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel()
		return nil, err
	}
	f.tell(response)
	response.Body = &body{response.Body, cancel}
	return response, nil
}

// body ends the attempt's context once the answer was read.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// get asks one API server, and only that one.
func (f *failover) get(ctx context.Context, e endpoint, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+e.address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := f.try(req, e)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %s", path, response.Status, firstFailure(string(text)))
	}
	return text, nil
}
