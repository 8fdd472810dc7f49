// Command web is the lab's sample service: it tells who answered, and stops without dropping a request.
//
// After SIGTERM it goes on accepting connections for the drain period, because kube-proxy on every node keeps sending new
// ones until it has heard that the endpoint is terminating. Only then does it close its listener, finish what it has begun
// and exit 0. The pod's terminationGracePeriodSeconds must be longer than the drain period.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// finishWithin bounds the requests still running when the listener closes.
const finishWithin = 5 * time.Second

func main() {
	listen := flag.String("listen", ":8080", "address to serve on")
	drain := flag.Duration("drain", 12*time.Second, "how long to go on serving after SIGTERM")
	flag.Parse()

	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		err = serve(stop, listener, handler(os.Getenv("POD_NAME"), os.Getenv("NODE_NAME")), func() { <-time.After(*drain) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

// handler answers "/" with the names of pod and node, "/readyz" with ok, and "/lookup?name=N" with the addresses that the
// pod's own resolver gives for N, one a line (502 and the reason where it gives none).
func handler(pod, node string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "%s on %s\n", pod, node) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /lookup", func(w http.ResponseWriter, r *http.Request) {
		addresses, err := net.DefaultResolver.LookupHost(r.Context(), r.URL.Query().Get("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, strings.Join(addresses, "\n"))
	})
	return mux
}

// serve answers on listener, one request per connection, until stop is done and drain has returned; then it closes the
// listener and waits for the running requests. It returns nil after such a stop and an error when serving or finishing failed.
func serve(stop context.Context, listener net.Listener, h http.Handler, drain func()) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: finishWithin}
	// A kept-alive connection would hide from its client that the endpoint has left the Service.
	server.SetKeepAlivesEnabled(false)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	select {
	case err := <-served:
		return err
	case <-stop.Done():
	}
	drain()
	finish, cancel := context.WithTimeout(context.WithoutCancel(stop), finishWithin)
	defer cancel()
	if err := server.Shutdown(finish); err != nil {
		return fmt.Errorf("requests still running %v after the drain period: %w", finishWithin, err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
