package main

import (
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The file by which the tool goes the hardest way says all of it, and an edit comes last.
func TestHardestWayIsWritten(t *testing.T) {
	small, err := findShape("small")
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(settings{Shape: small, State: t.TempDir(), Cache: cache{dir: t.TempDir()}})
	if err := l.writeClusterFile(); err != nil {
		t.Fatal(err)
	}
	s := newSSHSite(&bed{lab: l.settings, nodes: small.Nodes(), dir: t.TempDir()})
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := s.clusterFile("way", with("tunnel: relay", "tunnel: edited"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		SSH struct {
			User, Key, KnownHosts, SudoPasswordFile, Tunnel string
			Jump                                            []string
		}
		Hosts []struct{ Name, Address string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	ssh := file.SSH
	if ssh.User != "deploy" || ssh.Key != s.path("keys/plain") || ssh.KnownHosts != s.path("known_hosts") ||
		ssh.SudoPasswordFile != s.path("sudo-password") || ssh.Tunnel != "edited" {
		t.Errorf("ssh is %+v", ssh)
	}
	if want := []string{"jump@10.77.0.31", "jump@10.77.0.32"}; !slices.Equal(ssh.Jump, want) {
		t.Errorf("the way is %q, want %q", ssh.Jump, want)
	}
	last := file.Hosts[len(file.Hosts)-1]
	if address, err := netip.ParseAddr(last.Address); err != nil || !address.Is6() {
		t.Errorf("%s has the address %s, want one of IPv6", last.Name, last.Address)
	}
}

// A password that a shell or a file by lines cannot carry would test nothing but itself.
func TestPasswordsAreAwkwardAndCarriable(t *testing.T) {
	for user, password := range newSSHSite(&bed{dir: t.TempDir()}).passwords {
		if strings.ContainsAny(password, "\n\r\x00") || !strings.Contains(password, `'`) || len(password) < 26 {
			t.Errorf("the password of %s is %q", user, password)
		}
	}
}

// The scripts are read by a shell only inside a host, after minutes of setting up.
func TestSiteScriptsParse(t *testing.T) {
	names, err := fs.Glob(sshFiles, "ssh/*.sh")
	if err != nil || len(names) < 5 {
		t.Fatalf("found %q, %v", names, err)
	}
	for _, name := range names {
		text, err := sshFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		shell := exec.CommandContext(t.Context(), "sh", "-n")
		shell.Stdin = strings.NewReader(string(text))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestFailedTests(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	text := "=== RUN TestA\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/one (0.1s)\n        a.go:1: said\n--- PASS: TestB (0.1s)\nFAIL\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := failedTests(log), []string{"TestA (0.1s)", "TestA/one (0.1s)"}; !slices.Equal(got, want) {
		t.Errorf("failedTests = %q, want %q", got, want)
	}
}
