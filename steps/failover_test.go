package steps

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// No test needs, or minds, a proxy of the environment. It is read once in the life of a process.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		os.Setenv(name, "http://proxy.invalid:3128")
	}
	os.Exit(m.Run())
}

// ask sends one request as client-go does, and gives status and body.
func ask(t *testing.T, rt http.RoundTripper, method, body string) (string, error) {
	t.Helper()
	var payload io.Reader
	if body != "" {
		payload = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://kubernetes.invalid/api?limit=1", payload)
	if err != nil {
		t.Fatal(err)
	}
	response, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Status + ": " + string(text), nil
}

// breaks ends the request without an answer: it was seen, what became of it is not known.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestFailover(t *testing.T) {
	get, post := "GET /api?limit=1", "POST /api?limit=1 {}"
	tests := []struct {
		name, method   string
		a, b           answer // nil: no connection is possible
		want, problem  string
		askedA, askedB []string
		takes          time.Duration
	}{
		{"the first answers", "GET", says(200, "a"), says(200, "b"), "200 OK: a", "", []string{get}, nil, 0},
		{"a client's mistake is an answer", "GET", says(404, "not here"), says(200, "b"), "404 Not Found: not here", "", []string{get}, nil, 0},
		{"too many requests is an answer", "GET", says(429, "later"), says(200, "b"), "429 Too Many Requests: later", "", []string{get}, nil, 0},
		{"the first has no etcd", "GET", says(500, "etcd"), says(200, "b"), "200 OK: b", "", []string{get}, []string{get}, 0},
		{"the first is stopping", "GET", says(503, "bye"), says(200, "b"), "200 OK: b", "", []string{get}, []string{get}, 0},
		{"the first breaks off", "GET", breaks, says(200, "b"), "200 OK: b", "", []string{get}, []string{get}, 0},
		{"none of them is well", "GET", says(503, "bye"), says(500, "etcd"), "500 Internal Server Error: etcd", "", []string{get}, []string{get}, 0},
		{"the first is down", "GET", nil, says(200, "b"), "200 OK: b", "", nil, []string{get}, 0},
		{"both are down", "GET", nil, nil, "", "API server of b: connection refused", nil, nil, 0},
		{"the first is ill, the second down", "GET", says(503, "bye"), nil, "", "API server of b: connection refused", []string{get}, nil, 0},
		{"the first hangs", "GET", hangs, says(200, "b"), "200 OK: b", "", []string{get}, []string{get}, 20 * time.Second},
		{"both hang", "GET", hangs, hangs, "", "API server of b did not answer within 20s", []string{get}, []string{get}, 40 * time.Second},
		{"HEAD reads too", "HEAD", says(503, ""), says(200, ""), "200 OK: ", "", []string{"HEAD /api?limit=1"}, []string{"HEAD /api?limit=1"}, 0},

		{"a write is answered", "POST", says(201, "made"), says(200, "b"), "201 Created: made", "", []string{post}, nil, 0},
		{"a write is not sent again after an answer", "POST", says(500, "etcd"), says(200, "b"), "500 Internal Server Error: etcd", "", []string{post}, nil, 0},
		{"a write that nobody saw goes elsewhere", "POST", nil, says(201, "made"), "201 Created: made", "", nil, []string{post}, 0},
		{"a write that broke off is not sent again", "POST", breaks, says(201, "made"), "", "stream error", []string{post}, nil, 0},
		{"a write that hangs is not sent again", "POST", hangs, says(201, "made"), "", "API server of a did not answer within 20s", []string{post}, nil, 20 * time.Second},
		{"a removal is a write", "DELETE", says(503, "bye"), says(200, "b"), "503 Service Unavailable: bye", "", []string{"DELETE /api?limit=1"}, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				o := f.failover(t, map[string]answer{"a": tt.a, "b": tt.b})
				f.set(f.down, "a", tt.a == nil)
				f.set(f.down, "b", tt.b == nil)
				body := ""
				if tt.method == "POST" {
					body = "{}"
				}
				began := time.Now()
				got, err := ask(t, o, tt.method, body)
				problem := ""
				if err != nil {
					problem = err.Error()
				}
				if got != tt.want || !strings.Contains(problem, tt.problem) || (problem == "") != (tt.problem == "") {
					t.Errorf("got %q, %q, want %q, %q", got, problem, tt.want, tt.problem)
				}
				if took := time.Since(began); took != tt.takes {
					t.Errorf("it took %v, want %v", took, tt.takes)
				}
				if d := cmp.Diff(tt.askedA, f.told("a")); d != "" {
					t.Errorf("a was asked (-want +got):\n%s", d)
				}
				if d := cmp.Diff(tt.askedB, f.told("b")); d != "" {
					t.Errorf("b was asked (-want +got):\n%s", d)
				}
			})
		})
	}
}

// A connection that is taken and then stays silent, as by a host that dies, ends with the limit.
func TestFailoverFromASilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		o := f.failover(t, map[string]answer{"a": says(200, "a"), "b": says(200, "b")})
		f.set(f.mute, "a", true)
		if got, err := ask(t, o, "GET", ""); got != "200 OK: b" || err != nil {
			t.Errorf("got %q, %v, want b's answer", got, err)
		}
	})
}

// Who answered last is asked first, so that a dead host costs its limit once and not with each request.
func TestFailoverRemembersWhoAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		ill := false
		o := f.failover(t, map[string]answer{
			"a": says(503, "bye"), "b": says(503, "bye"),
			"c": func(w http.ResponseWriter, r *http.Request) {
				if ill {
					says(503, "bye")(w, r)
				} else {
					says(200, "c")(w, r)
				}
			},
		})
		for range 2 {
			if got, err := ask(t, o, "GET", ""); got != "200 OK: c" || err != nil {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		if a, b, c := len(f.told("a")), len(f.told("b")), len(f.told("c")); a != 1 || b != 1 || c != 2 {
			t.Errorf("asked %d, %d and %d times, want 1, 1, 2", a, b, c)
		}
		ill = true
		if _, err := ask(t, o, "GET", ""); err != nil {
			t.Fatal(err)
		}
		if a, b, c := len(f.told("a")), len(f.told("b")), len(f.told("c")); a != 1 || b != 1 || c != 1 {
			t.Errorf("asked %d, %d and %d times, want each once", a, b, c)
		}
	})
}

// The caller's own end is not another host's turn.
func TestFailoverEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		o := f.failover(t, map[string]answer{"a": hangs, "b": says(200, "b")})
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", "https://kubernetes.invalid/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := o.RoundTrip(req)
		if err == nil {
			response.Body.Close()
		}
		if !errors.Is(err, cause) {
			t.Errorf("error is %v, want the caller's cause", err)
		}
		if asked := f.told("b"); len(asked) > 0 {
			t.Errorf("b was asked %q", asked)
		}
	})
}

func TestFailoverWithoutEndpoints(t *testing.T) {
	o := newFleet(t).failover(t, nil)
	if _, err := ask(t, o, "GET", ""); err == nil || err.Error() != "no API server is known" {
		t.Errorf("error is %v", err)
	}
}

// An address that no endpoint has is never dialled: the transport follows nothing it was not told.
func TestFailoverDialsOnlyWhatItKnows(t *testing.T) {
	o := newFleet(t).failover(t, nil)
	if _, err := o.dialEndpoint(t.Context(), "tcp", "192.0.2.7:6443"); err == nil || err.Error() != "192.0.2.7:6443 is no API server of this cluster" {
		t.Errorf("error is %v", err)
	}
}

// Get asks the one it is told to, whatever it answers.
func TestGetAsksOnlyTheOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		o := f.failover(t, map[string]answer{
			"a": says(200, "a"),
			"b": says(500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"),
			"c": hangs,
		})
		a, b, c := o.endpoints[0], o.endpoints[1], o.endpoints[2]
		if got, err := o.get(t.Context(), a, "/version"); string(got) != "a" || err != nil {
			t.Errorf("of a: %q, %v", got, err)
		}
		for e, want := range map[endpoint]string{
			b: "/readyz?verbose answers 500 Internal Server Error: etcd failed: reason withheld",
			c: "API server of c did not answer within 20s",
		} {
			if _, err := o.get(t.Context(), e, "/readyz?verbose"); err == nil || err.Error() != want {
				t.Errorf("of %s: error is %v, want %s", e.host, err, want)
			}
		}
		if d := cmp.Diff([]string{"GET /version"}, f.told("a")); d != "" {
			t.Errorf("a was asked (-want +got):\n%s", d)
		}
	})
}

// An API server with a certificate of another cluster is none of this one. A handshake that fails
// midway needs a real connection, which has buffers.
func TestFailoverTrustsOnlyTheClustersCA(t *testing.T) {
	stranger := httptest.NewUnstartedServer(http.HandlerFunc(says(200, "a stranger")))
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	defer stranger.Close()
	address := stranger.Listener.Addr().String()
	o := newFailover(&tls.Config{RootCAs: newAuthority(t).pool()}, func(ctx context.Context, _, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	})
	o.setEndpoints([]endpoint{{"a", address}})
	if got, err := ask(t, o, "GET", ""); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("got %q, %v, want an error about its certificate", got, err)
	}
}
