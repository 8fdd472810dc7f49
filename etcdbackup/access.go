package etcdbackup

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Access is how members are reached.
type Access struct {
	TLS  *tls.Config                                                 // nil means plain text
	Dial func(ctx context.Context, address string) (net.Conn, error) // such as through SSH; nil dials directly
}

// Endpoint is one member's client address.
type Endpoint struct {
	Name    string `json:"name"`    // the member's name, on kubeadm clusters that of the node
	Address string `json:"address"` // host:port, such as "10.0.0.1:2379" or "[fd00::1]:2379"
}

// String names the endpoint in messages.
func (e Endpoint) String() string { return e.Name + " (" + e.Address + ")" }

// failFast lets a call end when the connection cannot be made. The etcd client's way, together with its hundred retries,
// is to wait until the context ends and then to have forgotten why.
func failFast(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return invoke(ctx, method, request, reply, conn, append(options, grpc.WaitForReady(false))...)
}

// open returns a client of one member only: with several endpoints the client would choose who answers. Keepalives
// notice a connection that died without a word; etcd accepts them every 5 s.
func (a Access) open(ctx context.Context, e Endpoint) (*clientv3.Client, error) {
	scheme := "http://"
	if a.TLS != nil {
		scheme = "https://"
	}
	dial := a.Dial
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return clientv3.New(clientv3.Config{
		Context:              ctx,
		Endpoints:            []string{scheme + e.Address},
		TLS:                  a.TLS,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		MaxUnaryRetries:      3,
		DialOptions:          []grpc.DialOption{grpc.WithContextDialer(dial), grpc.WithChainUnaryInterceptor(failFast)},
		Logger:               zap.NewNop(),
	})
}
