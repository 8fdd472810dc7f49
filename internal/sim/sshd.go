package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// accept serves one SSH connection to its end.
func (h *host) accept(c net.Conn, o *Operator) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), h.w.user.PublicKey().Marshal()) {
			return nil, errors.New("no such key")
		}
		return nil, nil
	}}
	config.AddHostKey(h.signer)
	defer c.Close()
	_, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	h.w.loops.Go(func() { ssh.DiscardRequests(requests) })
	for open := range channels {
		switch open.ChannelType() {
		case "session":
			h.w.loops.Go(func() { h.session(open, o) })
		case "direct-tcpip":
			h.w.loops.Go(func() { h.forward(open) })
		default:
			_ = open.Reject(ssh.UnknownChannelType, "unknown") // fails only on a dead connection
		}
	}
}

// forward joins a channel with a port of the host.
func (h *host) forward(open ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(open.ExtraData(), &to); err != nil {
		_ = open.Reject(ssh.ConnectionFailed, err.Error()) // fails only on a dead connection
		return
	}
	address := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
	c, err := h.connect(address)
	if err != nil {
		_ = open.Reject(ssh.ConnectionFailed, err.Error()) // fails only on a dead connection
		return
	}
	defer h.forget(address, c)
	defer c.Close()
	ch, requests, err := open.Accept()
	if err != nil {
		return
	}
	h.w.loops.Go(func() { ssh.DiscardRequests(requests) })
	h.w.loops.Go(func() {
		_, _ = io.Copy(ch, c) // either end's end is the end
		ch.Close()
	})
	_, _ = io.Copy(c, ch) // either end's end is the end
}

// session runs what a session asks for: the loader of scripts, or SFTP.
func (h *host) session(open ssh.NewChannel, o *Operator) {
	ch, requests, err := open.Accept()
	if err != nil {
		return
	}
	for r := range requests {
		var what struct{ Name string }
		begins := (r.Type == "exec" || r.Type == "subsystem") && ssh.Unmarshal(r.Payload, &what) == nil
		takes := begins && (r.Type == "exec" || what.Name == "sftp" && !h.withoutSFTP())
		if r.WantReply {
			_ = r.Reply(takes, nil) // fails only on a dead connection
		}
		if !takes {
			continue
		}
		if r.Type == "subsystem" {
			h.w.loops.Go(func() { h.serveSFTP(ch) })
		} else {
			h.w.loops.Go(func() { h.exec(ch, what.Name, o) })
		}
	}
}

func (h *host) withoutSFTP() bool {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return h.noSFTP
}

// exec runs a script and tells how it ended. It goes on when nobody listens any more, as a process does.
func (h *host) exec(ch ssh.Channel, command string, o *Operator) {
	defer ch.Close()
	code := 127
	s, err := receive(h, o.current(), ch, command)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			h.w.mu.Lock()
			h.w.breaks("known", "%s was sent what is no script: %v", h.name, err)
			h.w.mu.Unlock()
		}
	} else {
		code = s.run()
	}
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)})) // nobody may listen
}

func (h *host) serveSFTP(ch ssh.Channel) {
	server := sftp.NewRequestServer(ch, sftp.Handlers{FileGet: h, FilePut: h, FileCmd: h, FileList: h})
	_ = server.Serve() // ends with the channel
	ch.Close()
}

// The methods of sftp.Handlers: files arrive, nothing else is done over SFTP.

// Filewrite takes a new file.
func (h *host) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.full {
		return nil, sftp.ErrSSHFxFailure
	}
	if h.files[r.Filepath] != nil {
		return nil, sftp.ErrSSHFxFailure
	}
	f := &file{mode: "0600"}
	h.files[r.Filepath] = f
	return &arriving{h, f}, nil
}

// Fileread is refused.
func (h *host) Fileread(*sftp.Request) (io.ReaderAt, error) { return nil, sftp.ErrSSHFxOpUnsupported }

// Filecmd is refused.
func (h *host) Filecmd(*sftp.Request) error { return sftp.ErrSSHFxOpUnsupported }

// Filelist is refused.
func (h *host) Filelist(*sftp.Request) (sftp.ListerAt, error) { return nil, sftp.ErrSSHFxOpUnsupported }

// arriving is a file that comes piece by piece, in any order.
type arriving struct {
	h *host
	f *file
}

// WriteAt implements io.WriterAt.
func (a *arriving) WriteAt(p []byte, at int64) (int, error) {
	a.h.w.mu.Lock()
	defer a.h.w.mu.Unlock()
	if a.h.full {
		return 0, sftp.ErrSSHFxFailure
	}
	if need := int(at) + len(p); len(a.f.data) < need {
		a.f.data = append(a.f.data, make([]byte, need-len(a.f.data))...)
	}
	return copy(a.f.data[at:], p), nil
}

// Operator is the machine of one person, from which connections to the hosts are made.
type Operator struct {
	w    *World
	all  map[net.Conn]*host
	dead bool // this and what follows is guarded by the world's lock
	run  *Run
	id   string // of the run
}

func (o *Operator) current() *Run {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	return o.run
}

// NewOperator is a machine that can reach all hosts.
func (w *World) NewOperator() *Operator { return &Operator{w: w, all: map[net.Conn]*host{}} }

// Dial connects to the SSH port of a host.
func (o *Operator) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	ip, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	w := o.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		if h.address != ip || !h.up || o.dead || ctx.Err() != nil || w.ctx.Err() != nil || w.faults.unreachable(h) {
			continue
		}
		near, far := newPipe(address)
		h.conns[far], o.all[far] = true, h
		w.loops.Go(func() {
			h.accept(far, o)
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(h.conns, far)
			delete(o.all, far)
		})
		return near, nil
	}
	return nil, fmt.Errorf("dial tcp %s: connection refused", address)
}

// Kill takes the machine away: all its connections at once, and every one it would make.
func (o *Operator) Kill() {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.dead = true
	for c := range o.all {
		c.Close()
	}
}
