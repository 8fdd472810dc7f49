package sim

import (
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// host is one machine. Its fields are guarded by the world's lock.
type host struct {
	w       *World
	name    string // in the cluster file
	node    string // of its Node
	address string
	control bool // a control plane

	up      bool
	boot    int           // counts boots: what began in an earlier one is gone
	skew    time.Duration // its clock against the true one
	full    bool          // its disk takes nothing more
	noSFTP  bool
	files   map[string]*file
	images  map[string]bool
	units   map[string]*unit
	kubelet kubelet
	static  map[string]*staticPod // by component
	ports   map[string]*port      // by host:port, as seen from the host

	lock   hostLock
	booted time.Time // zero: before the world began

	tcp    int // port on this machine's loopback where SSH listens; 0: it does not
	signer ssh.Signer
	conns  map[net.Conn]bool // of SSH
	procs  map[int]func()    // how to end a script, by its process id
	lastID int
}

type file struct {
	data []byte
	mode string // octal
}

func (h *host) read(name string) string {
	if f := h.files[name]; f != nil {
		return string(f.data)
	}
	return ""
}

func (h *host) write(name string, data []byte, mode string) {
	h.files[name] = &file{data, mode}
}

// below gives the names of the files in a directory and below it.
func (h *host) below(dir string) []string {
	var found []string
	for _, name := range sortedKeys(h.files) {
		if strings.HasPrefix(name, dir+"/") {
			found = append(found, name)
		}
	}
	return found
}

// now is the time by the host's clock.
func (h *host) now() time.Time { return time.Now().Add(h.skew) }

// installed is the version of a program on the disk.
func (h *host) installed(name string) string {
	if f := h.files["/usr/bin/"+name]; f != nil {
		return versionOf(f.data)
	}
	return ""
}

// port is where something on a host listens.
type port struct {
	l     *listener
	open  func() bool
	conns map[net.Conn]bool
}

// cut ends the connections to a port, as the end of its process does.
func (p *port) cut() {
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// connect reaches a port of the host.
func (h *host) connect(address string) (net.Conn, error) {
	h.w.mu.Lock()
	p := h.ports[address]
	open := p != nil && h.up && p.open()
	h.w.mu.Unlock()
	if !open {
		return nil, fmt.Errorf("connect to %s: connection refused", address)
	}
	c, err := p.l.connect()
	if err != nil {
		return nil, err
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	p.conns[c] = true
	return c, nil
}

// forget is told when a connection to a port has ended.
func (h *host) forget(address string, c net.Conn) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if p := h.ports[address]; p != nil {
		delete(p.conns, c)
	}
}

// reboot takes the host away for a while: what ran on it is gone, what is on its disk stays.
func (h *host) reboot(away time.Duration) {
	h.boot++
	h.up = false
	h.kubelet = kubelet{}
	clear(h.static)
	for _, p := range h.ports {
		p.cut()
	}
	for c := range h.conns {
		c.Close()
	}
	clear(h.conns)
	clear(h.procs)
	for _, u := range h.units {
		u.live = false
	}
	h.w.etcd.elect()
	h.w.changed("host " + h.name + " goes down")
	h.w.after(away, func() {
		h.up, h.booted = true, time.Now()
		h.w.unready(h.node)
		h.startKubelet()
		h.w.changed("host " + h.name + " is back")
	})
}
