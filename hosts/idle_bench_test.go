package hosts

import (
	"bufio"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// The child process of BenchmarkIdleHosts: a server of its own, so that only the client's memory is measured.
const childServer = "KUBERUNG_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(childServer) != "" {
		serveChild()
		return
	}
	verifyMain(m)
}

// serveChild serves on a port that it prints, until its input ends.
func serveChild() {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed([]byte(strings.Repeat("h", ed25519.SeedSize))))
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := &gliderssh.Server{
		HostSigners:      []gliderssh.Signer{key},
		PublicKeyHandler: func(gliderssh.Context, gliderssh.PublicKey) bool { return true },
		Handler:          func(s gliderssh.Session) { _ = s.Exit(0) },
	}
	go func() { _ = s.Serve(l) }()
	fmt.Println(knownhosts.Line([]string{l.Addr().String()}, key.PublicKey()))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// startChild gives a server in another process, as the configuration of a host.
func startChild(b *testing.B) Config {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childServer+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	known, key := filepath.Join(dir, "known_hosts"), filepath.Join(dir, "key")
	block, err := ssh.MarshalPrivateKey(fuzzKey, "")
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{known: []byte(line), key: pem.EncodeToMemory(block)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	address := strings.TrimPrefix(strings.Fields(line)[0], "[127.0.0.1]:")
	c := Config{Name: "cp1", Address: "127.0.0.1", User: "ops", KeyFiles: []string{key}, KnownHostsFiles: []string{known}, Agent: "none"}
	if _, err := fmt.Sscan(address, &c.Port); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkIdleHosts measures what a connected host that does nothing costs here: heap and stacks, in KiB a host.
func BenchmarkIdleHosts(b *testing.B) {
	c := startChild(b)
	const many = 100
	for b.Loop() {
		n := NewNetwork(nil)
		before := inUse()
		var all []*Host
		for range many {
			h := n.Host(c)
			if err := h.Connect(b.Context()); err != nil {
				b.Fatal(err)
			}
			all = append(all, h)
		}
		b.ReportMetric(float64(inUse()-before)/many/1024, "KiB/host")
		for _, h := range all {
			h.Close()
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// BenchmarkConnect makes a connection: TCP, key exchange, host key, authentication.
func BenchmarkConnect(b *testing.B) {
	c := startChild(b)
	n := NewNetwork(nil)
	for b.Loop() {
		h := n.Host(c)
		if err := h.Connect(b.Context()); err != nil {
			b.Fatal(err)
		}
		h.Close()
	}
}
