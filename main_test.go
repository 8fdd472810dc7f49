package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

// asKuberung lets the program of these tests be kuberung.
const asKuberung = "KUBERUNG_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asKuberung) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// kuberung is a process of it, started with what a shell does first.
func kuberung(t *testing.T, first string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", first + `exec "$0" "$@"`, self}, args...)...)
	cmd.Env = append(os.Environ(), asKuberung+"=1")
	return cmd
}

// silentHost is a cluster file whose one host takes connections and says nothing.
func silentHost(t *testing.T) (file string, host net.Listener) {
	t.Helper()
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"key": string(pem.EncodeToMemory(block)), "known_hosts": "",
		"cluster.yaml": fmt.Sprintf(`target: v1.36.3
artifacts: files
ssh: {user: ops, key: key, knownHosts: known_hosts, port: %d}
hosts:
  - {name: cp-1, address: 127.0.0.1, role: control-plane}
`, host.Addr().(*net.TCPAddr).Port),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cluster.yaml"), host
}

// Ctrl-C, a service manager and a terminal that goes away end a command in good order; not the last
// of them where somebody said nohup.
func TestSignals(t *testing.T) {
	const stopped, refused = 130, 3
	tests := []struct {
		name   string
		first  string
		signal syscall.Signal
		want   int
	}{
		{"Ctrl-C", "", syscall.SIGINT, stopped},
		{"a service manager", "", syscall.SIGTERM, stopped},
		{"the terminal is gone", "", syscall.SIGHUP, stopped},
		{"the terminal is gone, under nohup", "trap '' HUP; ", syscall.SIGHUP, refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file, host := silentHost(t)
			cmd := kuberung(t, tt.first, "check", "-f", file)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := host.Accept() // it is at work
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			if tt.want == refused { // it goes on until the host lets it go
				host.Close()
				conn.Close()
			} else {
				defer conn.Close()
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState; got.ExitCode() != tt.want {
				t.Errorf("it ended with %v, want exit code %d:\n%s", got, tt.want, out.String())
			}
		})
	}
}

// Whoever reads the output may go away: "kuberung upgrade | head" must not end in the middle.
func TestAReaderThatGoesAway(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd := kuberung(t, "", "version")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	_ = cmd.Wait()
	if !cmd.ProcessState.Exited() {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
