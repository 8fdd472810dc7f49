package sim

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newPipe gives the two ends of a connection in memory. Unlike net.Pipe it holds what was written until it is read: both
// ends of SSH begin by writing.
func newPipe(remote string) (near, far net.Conn) {
	there, back := newStream(), newStream()
	return &pipeEnd{in: back, out: there, remote: remote}, &pipeEnd{in: there, out: back, remote: remote}
}

// stream is one direction of a pipe.
type stream struct {
	mu       sync.Mutex
	stir     *sync.Cond
	held     []byte
	ended    bool // nothing more will be written, or what is written is not wanted
	deadline time.Time
	timer    *time.Timer
}

func newStream() *stream {
	s := &stream{}
	s.stir = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.held) == 0 {
		switch {
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		case s.ended:
			return 0, io.EOF
		}
		s.stir.Wait()
	}
	n := copy(p, s.held)
	s.held = s.held[n:]
	return n, nil
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	s.held = append(s.held, p...)
	s.stir.Broadcast()
	return len(p), nil
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.stir.Broadcast()
}

// until sets the deadline for reading. A timer wakes the reader, for nobody else may.
func (s *stream) until(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.deadline = t; !t.IsZero() {
		s.timer = time.AfterFunc(time.Until(t), s.wake)
	}
	s.stir.Broadcast()
}

func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stir.Broadcast()
}

// pipeEnd is one end of a pipe. Writing never blocks, so a deadline for it means nothing.
type pipeEnd struct {
	in, out *stream
	remote  string
}

func (e *pipeEnd) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *pipeEnd) Write(p []byte) (int, error) { return e.out.write(p) }

func (e *pipeEnd) Close() error {
	e.in.until(time.Time{})
	e.in.end()
	e.out.end()
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr               { return pipeAddr(e.remote) }
func (e *pipeEnd) RemoteAddr() net.Addr              { return pipeAddr(e.remote) }
func (e *pipeEnd) SetReadDeadline(t time.Time) error { e.in.until(t); return nil }
func (e *pipeEnd) SetWriteDeadline(time.Time) error  { return nil }
func (e *pipeEnd) SetDeadline(t time.Time) error     { return e.SetReadDeadline(t) }

type pipeAddr string

func (a pipeAddr) Network() string { return "tcp" }
func (a pipeAddr) String() string  { return string(a) }

// listener hands connections in memory to a server.
type listener struct {
	address string
	come    chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newListener(address string) *listener {
	return &listener{address: address, come: make(chan net.Conn), closed: make(chan struct{})}
}

// connect gives the near end of a new connection.
func (l *listener) connect() (net.Conn, error) {
	near, far := newPipe(l.address)
	select {
	case l.come <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.come:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return pipeAddr(l.address) }
