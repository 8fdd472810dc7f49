package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// get sends one request on a new connection and returns status and body.
func get(t *testing.T, url string) (int, string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	if !response.Close {
		t.Errorf("%s: the server offers to keep the connection", url)
	}
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func TestHandler(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(stop, listener, handler("web-1", "node-a"), func() {}) }()
	base := "http://" + listener.Addr().String()

	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/":                      {200, "web-1 on node-a\n"},
		"/readyz":                {200, "ok\n"},
		"/lookup?name=127.0.0.1": {200, "127.0.0.1\n"},
		"/lookup?name=":          {502, "no such host"},
		"/other":                 {404, "not found"},
	} {
		status, body, err := get(t, base+path)
		if err != nil || status != want.status || !strings.Contains(body, want.body) {
			t.Errorf("GET %s = %d %q %v, want %d %q", path, status, body, err, want.status, want.body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve = %v, want nil after a stop", err)
	}
}

// A stop serves new connections until the drain period is over, and finishes what runs when it ends.
func TestGracefulStop(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + listener.Addr().String()
	begun, finish := make(chan bool), make(chan bool)
	mux := http.NewServeMux()
	mux.Handle("/", handler("web-1", "node-a"))
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		io.WriteString(w, "slow but sure")
	})
	draining, drained := make(chan bool), make(chan bool)
	stop, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- serve(stop, listener, mux, func() { close(draining); <-drained })
	}()

	cancel()
	<-draining
	if status, body, err := get(t, base+"/"); err != nil || status != 200 {
		t.Errorf("while draining GET / = %d %q %v, want 200", status, body, err)
	}
	slow := make(chan string, 1)
	go func() {
		_, body, err := get(t, base+"/slow")
		slow <- body
		if err != nil {
			t.Errorf("a request running at the end of the drain period: %v", err)
		}
	}()
	<-begun
	close(drained)
	for { // until the listener is closed: nothing else tells that the drain period is over
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}
		connection.Close()
	}
	select {
	case err := <-done:
		t.Fatalf("serve returned %v with a request running", err)
	default:
	}
	close(finish)
	if body := <-slow; body != "slow but sure" {
		t.Errorf("the running request got %q", body)
	}
	if err := <-done; err != nil {
		t.Errorf("serve = %v, want nil", err)
	}
}
