package hosts

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// parrots are SSH servers, each a host, that run nothing and always print the same.
type parrots struct {
	hosts []Config
}

var nonces = regexp.MustCompile(`[A-Z2-7]{26}`)

// newParrots starts n servers that print what says makes of the script's mark.
func newParrots(b *testing.B, n int, says func(mark string) string) *parrots {
	b.Helper()
	dir := b.TempDir()
	signer := func() (ssh.Signer, ed25519.PrivateKey) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		s, err := ssh.NewSignerFromKey(private)
		if err != nil {
			b.Fatal(err)
		}
		return s, private
	}
	user, private := signer()
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		b.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	key := file("key", string(pem.EncodeToMemory(block)))
	p, known := &parrots{}, ""
	for i := range n {
		hostKey, _ := signer()
		s := &gliderssh.Server{
			HostSigners: []gliderssh.Signer{hostKey},
			PublicKeyHandler: func(_ gliderssh.Context, k gliderssh.PublicKey) bool {
				return gliderssh.KeysEqual(k, user.PublicKey())
			},
			Handler: func(sess gliderssh.Session) {
				in := bufio.NewReader(sess)
				var found []string
				for len(found) == 0 { // the lines before the script hold none
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					found = nonces.FindAllString(line, -1)
				}
				frame, mark := found[0], ""
				for _, token := range found {
					if token != frame {
						mark = token
					}
				}
				fmt.Fprintln(sess.Stderr(), frame)
				_, _ = io.WriteString(sess, frame+" 4711\n"+says(mark))
				_ = sess.Exit(0)
			},
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		served := make(chan struct{})
		go func() { defer close(served); _ = s.Serve(l) }()
		b.Cleanup(func() { s.Close(); <-served })
		known += knownhosts.Line([]string{l.Addr().String()}, hostKey.PublicKey()) + "\n"
		p.hosts = append(p.hosts, Config{
			Name: fmt.Sprintf("host-%d", i), Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, User: "ops", Sudo: true,
			KeyFiles: []string{key}, KnownHostsFiles: []string{filepath.Join(dir, "known_hosts")}, Agent: "none", ConnectTimeout: time.Minute,
		})
	}
	file("known_hosts", known)
	return p
}

// dial gives a connected host for each server.
func (p *parrots) dial(b *testing.B) []*Host {
	b.Helper()
	n := NewNetwork(nil)
	var all []*Host
	for _, c := range p.hosts {
		all = append(all, n.Host(c))
	}
	each(b, all, func(h *Host) error { return h.Connect(b.Context()) })
	return all
}

// each calls do for all hosts at once.
func each(b *testing.B, all []*Host, do func(*Host) error) {
	b.Helper()
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			if err := do(h); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// canned is an answer of the size that a control plane gives.
func canned(b *testing.B, q Query) func(string) string {
	b.Helper()
	cert, _ := certificate(b, "agent", time.Now())
	text := "1800000000.000000000\n"
	part := func(name, body string) { text += "\nM " + name + "\n" + body }
	part("kernel", "6.1.0\n")
	part("machine", "x86_64\n")
	part("os", "ID=debian\nVERSION_ID=12\n")
	part("machine-id", "0123456789abcdef0123456789abcdef\n")
	part("cgroup", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	for _, d := range q.Disks {
		part("disk "+d, "/dev/sda1 4096 1024 3072 25% /\n")
	}
	for _, p := range q.Programs {
		part("program "+p.Name, "path=/usr/bin/x\nreal=/usr/bin/x\npackage=\ncode=0\nsays=v1.2.3\n")
	}
	for _, u := range q.Units {
		part("unit "+u, "LoadState=loaded\nActiveState=active\nFragmentPath=/etc/u\n")
		part("file /etc/u", strings.Repeat("Environment=A=b\n", 100))
	}
	for _, c := range q.Certificates {
		part("certificates "+c.Path, cert)
	}
	part("more manifests", strings.Repeat("    - --flag=value\n", 1000))
	part("end", "")
	return func(mark string) string { return strings.ReplaceAll(text, "\nM ", "\n"+mark+" ") }
}

func BenchmarkFacts100(b *testing.B) {
	q := Query{
		Disks: []string{"/var/lib", "/etc", "/usr/bin"}, Units: []string{"a.service", "b.service"},
		Programs: []ProgramQuery{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
	}
	for i := range 16 {
		q.Certificates = append(q.Certificates, CertificateQuery{Path: fmt.Sprintf("/etc/pki/%d.pem", i)})
	}
	p := newParrots(b, 100, canned(b, q))
	facts := func(h *Host) error {
		f, err := h.Facts(b.Context(), q)
		if err == nil && (f.Arch != "amd64" || len(f.Certificates) != 16 || f.More["manifests"] == "") {
			err = fmt.Errorf("facts are %+v", f)
		}
		return err
	}
	perHost := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/100, "ms/host")
	}
	b.Run("warm", func(b *testing.B) {
		all := p.dial(b)
		for b.Loop() {
			each(b, all, facts)
		}
		each(b, all, (*Host).Close)
		perHost(b)
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			all := p.dial(b)
			each(b, all, facts)
			each(b, all, (*Host).Close)
		}
		perHost(b)
	})
}

func BenchmarkNoop(b *testing.B) {
	h := newParrots(b, 1, func(string) string { return "" }).dial(b)[0]
	for b.Loop() {
		if _, err := h.Run(b.Context(), Cmd{Argv: []string{"true"}, Sudo: true}); err != nil {
			b.Fatal(err)
		}
	}
	h.Close()
}
