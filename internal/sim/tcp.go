package sim

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/crypto/ssh/knownhosts"
)

const loopback = "127.0.0.1"

// ListenTCP lets SSH to every host be reached on this machine's loopback, at a port of the host's own: then the cluster
// of [World.Cluster] is one for anybody on this machine who has its key. It ends with the world.
func (w *World) ListenTCP() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := &Operator{w: w, all: map[net.Conn]*host{}}
	var known []byte
	for _, h := range w.hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return err
		}
		h.tcp = l.Addr().(*net.TCPAddr).Port
		known = fmt.Appendln(known, knownhosts.Line([]string{l.Addr().String()}, h.signer.PublicKey()))
		w.loops.Go(func() { w.acceptTCP(l, h, o) })
		w.loops.Go(func() {
			<-w.ctx.Done()
			l.Close()
		})
	}
	return os.WriteFile(w.knownHosts(), known, 0o600)
}

func (w *World) acceptTCP(l net.Listener, h *host, o *Operator) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		takes := h.up && w.ctx.Err() == nil
		if takes {
			h.conns[c] = true
		}
		w.mu.Unlock()
		if !takes {
			c.Close()
			continue
		}
		w.loops.Go(func() {
			h.accept(c, o)
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(h.conns, c)
		})
	}
}
