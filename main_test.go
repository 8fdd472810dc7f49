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
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	gliderssh "github.com/gliderlabs/ssh"
	"github.com/skeema/knownhosts"
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
ssh: {user: ops, key: key, knownHosts: known_hosts, port: %d, config: none}
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

// lockedOut is a cluster file whose one host takes only a key that has a passphrase, and then says nothing more.
func lockedOut(t *testing.T, passphrase string) (file string, signedIn chan string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file, host := silentHost(t)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	known := knownhosts.Line([]string{host.Addr().String()}, signer.PublicKey())
	for name, data := range map[string][]byte{"key": pem.EncodeToMemory(block), "known_hosts": []byte(known + "\n")} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	signedIn = make(chan string, 100)
	server := &gliderssh.Server{
		HostSigners: []gliderssh.Signer{signer},
		PublicKeyHandler: func(_ gliderssh.Context, k gliderssh.PublicKey) bool {
			return gliderssh.KeysEqual(k, signer.PublicKey())
		},
		Handler: func(s gliderssh.Session) { signedIn <- s.User(); _ = s.Exit(1) },
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(host) }()
	t.Cleanup(func() { server.Close(); <-served })
	return file, signedIn
}

// talk runs a program on a terminal of its own. Each answer is typed when its question stands at the end of the screen.
// It gives all that the screen showed.
func talk(t *testing.T, cmd *exec.Cmd, answers ...[2]string) string {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait(); tty.Close() }() // which ends the reads
	var shown bytes.Buffer
	buffer := make([]byte, 4096)
	for {
		n, err := screen.Read(buffer)
		shown.Write(buffer[:n])
		if err != nil {
			break
		}
		if len(answers) > 0 && strings.HasSuffix(shown.String(), answers[0][0]) {
			if _, err := screen.WriteString(answers[0][1]); err != nil {
				t.Error(err)
			}
			answers = answers[1:]
		}
	}
	<-ended
	for _, left := range answers {
		t.Errorf("it never asked %q", left[0])
	}
	return shown.String()
}

// A passphrase is asked for on the terminal even if the streams are elsewhere, once for everything that needs it, and is
// shown nowhere.
func TestAPassphrase(t *testing.T) {
	const passphrase = "open sesame"
	for name, first := range map[string]string{"on a terminal": "", "with its streams elsewhere": "exec </dev/null >out 2>&1; "} {
		t.Run(name, func(t *testing.T) {
			file, signedIn := lockedOut(t, passphrase)
			cmd := kuberung(t, first, "check", "-f", file)
			cmd.Dir = t.TempDir()
			question := "passphrase of " + filepath.Join(filepath.Dir(file), "key") + ": "
			shown := talk(t, cmd, [2]string{question, "wrong\n"}, [2]string{"that passphrase does not open it\r\n" + question, passphrase + "\n"})
			if user := <-signedIn; user != "ops" {
				t.Errorf("%s signed in", user)
			}
			out, _ := os.ReadFile(filepath.Join(cmd.Dir, "out")) // not there with the streams on the terminal
			if text := shown + string(out); strings.Contains(text, passphrase) || strings.Contains(text, "wrong") || !strings.Contains(text, "a check said no") {
				t.Errorf("it showed\n%s", text)
			}
			if n := strings.Count(shown, question); n != 2 || cmd.ProcessState.ExitCode() != 3 {
				t.Errorf("it asked %d times, and ended with %v:\n%s", n, cmd.ProcessState, shown)
			}
		})
	}
}

// Ctrl-C at a question ends the command, and the terminal shows again what is typed.
func TestCtrlCAtAQuestion(t *testing.T) {
	file, _ := lockedOut(t, "open sesame")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The shell, which Ctrl-C does not end, tells how the terminal was left.
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `trap : INT; "$0" "$@"; echo "code $?"; stty -a`, self, "check", "-f", file)
	cmd.Env = append(os.Environ(), asKuberung+"=1")
	shown := talk(t, cmd, [2]string{"key: ", "\x03"})
	if !strings.Contains(shown, "stopped; nothing was changed") || !strings.Contains(shown, "code 130") || !strings.Contains(shown, " echo ") {
		t.Errorf("it showed\n%s", shown)
	}
}

// Where there is no terminal the check says so, and what to do.
func TestAPassphraseThatNobodyIsAskedFor(t *testing.T) {
	file, _ := lockedOut(t, "open sesame")
	cmd := kuberung(t, "", "check", "-f", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // leaves the terminal of whoever runs the tests
	out, _ := cmd.CombinedOutput()
	if text := string(out); !strings.Contains(text, "nobody can be asked") || !strings.Contains(text, "ssh-agent") || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("it ended with %v:\n%s", cmd.ProcessState, text)
	}
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
