package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/google/go-cmp/cmp"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/kuberung/kuberung/internal/config"
)

// result is what a command line gave.
type result struct {
	code     int
	out, err string
}

// try runs a command line of kuberung, with what is typed into it.
func try(t *testing.T, typed string, args ...string) result {
	t.Helper()
	return tryProcess(t.Context(), Process{In: strings.NewReader(typed), Stop: make(chan struct{})}, args...)
}

func tryProcess(ctx context.Context, p Process, args ...string) result {
	var out, err strings.Builder
	p.Out, p.Err, p.Version, p.Commit = &out, &err, "v0.1.0", "0123abc"
	if p.In == nil {
		p.In = strings.NewReader("")
	}
	code := Run(ctx, append([]string{"kuberung"}, args...), p)
	return result{code, out.String(), err.String()}
}

// site is a directory with a cluster file and what it names.
type site struct {
	t    *testing.T
	dir  string
	file string
}

func newSite(t *testing.T, text string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	s.file = s.put("cluster.yaml", text)
	s.put("known_hosts", "")
	_, private := newKey(t)
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	s.put("key", string(pem.EncodeToMemory(block)))
	return s
}

func newKey(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, private
}

func (s *site) put(name, text string) string {
	s.t.Helper()
	name = filepath.Join(s.dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// here leaves out the site's directory from a text.
func (s *site) here(text string) string { return strings.ReplaceAll(text, s.dir+"/", "") }

// cluster is a good cluster file of one host at a port of the loopback address.
func clusterFile(port int) string {
	return fmt.Sprintf(`target: v1.36.3
artifacts: files
ssh: {user: ops, key: key, knownHosts: known_hosts, port: %d, config: none}
hosts:
  - {name: cp-1, address: 127.0.0.1, role: control-plane}
`, port)
}

// closedPort is a port of the loopback address where nobody listens.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestWrongUsage(t *testing.T) {
	s := newSite(t, clusterFile(1))
	noTarget := newSite(t, strings.Replace(clusterFile(1), "target: v1.36.3\n", "", 1))
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown command", []string{"upgarde"}, "no command \"upgarde\"; kuberung --help lists them"},
		{"unknown flag", []string{"--force"}, "flag provided but not defined: -force; kuberung --help lists the flags"},
		{"unknown flag of a command", []string{"check", "--force"}, "flag provided but not defined: -force; kuberung check --help lists the flags"},
		{"a flag of another command", []string{"check", "--yes"}, "flag provided but not defined: -yes; kuberung check --help lists the flags"},
		{"flag without its value", []string{"plan", "--to"}, "flag needs an argument: -to; kuberung plan --help lists the flags"},
		{"an argument too many", []string{"check", "-f", s.file, "now"}, `unexpected argument "now"`},
		{"unknown output", []string{"plan", "-f", s.file, "-o", "yaml"}, `--output is text or json, not "yaml"`},
		{"unknown output of check", []string{"check", "-f", s.file, "--output", "JSON"}, `--output is text or json, not "JSON"`},
		{"no file", []string{"check", "-f", s.dir + "/none.yaml"}, "read cluster file: open none.yaml: no such file or directory"},
		{"no target", []string{"upgrade", "-f", noTarget.file}, "cluster.yaml names no target, and there is no --to"},
		{"target without a patch", []string{"upgrade", "-f", s.file, "--to", "1.36"}, "--to must be a full version such as v1.36.3, got 1.36 without a patch release"},
		{"target that is none", []string{"plan", "-f", s.file, "--to", "latest"}, `--to must be a version such as v1.36.3, got "latest"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := try(t, "", tt.args...)
			got.err = noTarget.here(s.here(got.err))
			if d := cmp.Diff(result{codeUsage, "", "kuberung: " + tt.want + "\n"}, got, cmp.AllowUnexported(result{})); d != "" {
				t.Errorf("result (-want +got):\n%s", d)
			}
		})
	}
}

// A mistake in the cluster file is told with its place, all of them at once, before any host is asked.
func TestMistakesInTheClusterFile(t *testing.T) {
	good := clusterFile(1)
	tests := []struct{ name, file, want string }{
		{"unknown key", good + "worker: {batch: 2}\n", "cluster.yaml:6:1: worker is not a known key, did you mean workers?"},
		{"wrong type", good + "workers: {batch: two}\n", `cluster.yaml:6:18: workers.batch must be a whole number, got the text "two"`},
		{"duplicate host", good + "  - {name: cp-1, address: 127.0.0.2, role: worker}\n", "cluster.yaml:6:5: hosts[1].name cp-1 is already the name of the host at cluster.yaml:5:5"},
		{"duplicate address", good + "  - {name: w-1, address: 127.0.0.1, role: worker}\n", "cluster.yaml:6:5: hosts[1].address 127.0.0.1 "},
		{"two mistakes", good + "worker: {batch: 2}\nworkers: {batch: 0}\n",
			"cluster.yaml:6:1: worker is not a known key, did you mean workers?\ncluster.yaml:7:18: workers.batch must be at least 1, got 0"},
		{"not YAML", "hosts: [\n", "cluster.yaml:2:1: is not YAML: "},
		{"no known_hosts", strings.Replace(good, "known_hosts", "nowhere", 1), "cluster.yaml:3:40: ssh.knownHosts: there is no file nowhere"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, tt.file)
			for _, command := range []string{"check", "plan", "upgrade"} {
				got := try(t, "y\n", command, "-f", s.file)
				text := s.here(got.err)
				if got.code != codeUsage || got.out != "" || !strings.HasPrefix(text, "kuberung: "+tt.want) {
					t.Errorf("%s: %d, %q, %q, want 2 and %q", command, got.code, got.out, text, tt.want)
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	want := result{codeDone, fmt.Sprintf("kuberung v0.1.0, commit 0123abc, %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH), ""}
	for _, arg := range []string{"version", "--version"} {
		if d := cmp.Diff(want, try(t, "", arg), cmp.AllowUnexported(result{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", arg, d)
		}
	}
}

func TestHelpListsCommandsAndExitCodes(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"-h"}} {
		got := try(t, "", args...)
		if got.code != codeDone || got.err != "" {
			t.Errorf("%q: %d, %q", args, got.code, got.err)
		}
		for _, command := range []string{"check", "plan", "upgrade", "status", "unlock", "version"} {
			if !regexp.MustCompile(`(?m)^\s+` + command + `\s`).MatchString(got.out) {
				t.Errorf("%q does not list the command %s:\n%s", args, command, got.out)
			}
		}
		for _, c := range codes {
			if !regexp.MustCompile(fmt.Sprintf(`(?m)^\s+%d  %s$`, c.code, regexp.QuoteMeta(c.meaning))).MatchString(got.out) {
				t.Errorf("%q does not list exit code %d", args, c.code)
			}
		}
	}
	if got := try(t, "", "upgrade", "--help"); got.code != codeDone || !strings.Contains(got.out, "--yes") {
		t.Errorf("help of a command: %+v", got)
	}
}

func TestExitCodesAreUniqueAndInTheREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, c := range codes {
		if seen[c.code] {
			t.Errorf("exit code %d means two things", c.code)
		}
		seen[c.code] = true
		if row := fmt.Sprintf("\n| %d | %s |\n", c.code, c.meaning); !strings.Contains(string(readme), row) {
			t.Errorf("README.md has no row%s", row)
		}
	}
	rows := regexp.MustCompile(`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(string(readme), -1)
	if len(rows) != len(codes) {
		t.Errorf("README.md lists %d exit codes, there are %d", len(rows), len(codes))
	}
}

func TestAHostThatCannotBeReached(t *testing.T) {
	port := closedPort(t)
	s := newSite(t, clusterFile(port))
	want := fmt.Sprintf("BLOCKS  host-reachable  cp-1 (cluster.yaml:5:5)\n        connect to cp-1 (127.0.0.1:%d): tcp connect: connection refused\n"+
		"        -> check the address in the cluster file, the host, and the network between\n", port)
	for _, command := range []string{"check", "plan", "upgrade"} {
		got := try(t, "y\n", command, "-f", s.file)
		text := s.here(got.out + got.err)
		if got.code != codeCheck || !strings.HasPrefix(text, want) || !strings.HasSuffix(got.err, "kuberung: a check said no; nothing was changed\n") {
			t.Errorf("%s: %d\n%s\nwant 3 and\n%s", command, got.code, text, want)
		}
		// What is wrong with the files is told at the same time.
		if !strings.Contains(text, "BLOCKS  artifacts-present  cluster.yaml:2:12\n        artifacts (files) is the directory above v1.36.3: "+
			"open files/v1.36.3/SHA256SUMS: no such file or directory\n        -> put the files of v1.36.3 into files/v1.36.3, with their SHA256SUMS\n") {
			t.Errorf("%s does not tell of the missing artifacts:\n%s", command, text)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "cluster-data")); !os.IsNotExist(err) {
		t.Errorf("a run that was refused left a record: %v", err)
	}
}

// A host that shows another key than known_hosts has is not spoken to: it sees no user and no command.
func TestAWrongHostKey(t *testing.T) {
	real, _ := newKey(t)
	other, _ := newKey(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	server := &gliderssh.Server{
		Handler:          func(gliderssh.Session) { asked.Add(1) },
		HostSigners:      []gliderssh.Signer{real},
		PublicKeyHandler: func(gliderssh.Context, gliderssh.PublicKey) bool { asked.Add(1); return true },
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	defer func() { server.Close(); <-served }()
	address := l.Addr().(*net.TCPAddr)
	s := newSite(t, clusterFile(address.Port))
	for name, tt := range map[string]struct{ known, fix string }{
		"changed": {knownhosts.Line([]string{address.String()}, other.PublicKey()) + "\n", "find out why the key changed; if the host was reinstalled, replace its line in known_hosts"},
		"unknown": {"", "if the key is the right one, record it; or set ssh.acceptNewHostKeys: true, and new keys are recorded at first sight"},
	} {
		t.Run(name, func(t *testing.T) {
			s.put("known_hosts", tt.known)
			got := try(t, "y\n", "upgrade", "-f", s.file, "--yes")
			first, _, _ := strings.Cut(s.here(got.out), "BLOCKS  api-reachable")
			if got.code != codeCheck || !strings.HasPrefix(first, "BLOCKS  host-reachable  cp-1 (cluster.yaml:5:5)\n") ||
				!strings.Contains(first, ssh.FingerprintSHA256(real.PublicKey())) || !strings.HasSuffix(first, "        -> "+tt.fix+"\n") {
				t.Errorf("%d\n%s\nwant 3, the fingerprint and %q", got.code, first, tt.fix)
			}
		})
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the host saw %d users or commands", n)
	}
}

func TestStoppedWhileLooking(t *testing.T) {
	s := newSite(t, clusterFile(closedPort(t)))
	stop := make(chan struct{})
	close(stop)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	for _, command := range []string{"check", "plan", "upgrade"} {
		// Whether the stop or the end of the look comes first is chance; both change nothing.
		got := tryProcess(t.Context(), Process{Stop: stop}, command, "-f", s.file)
		if got.code != codeInterrupted && got.code != codeCheck || !strings.HasSuffix(got.err, "nothing was changed\n") {
			t.Errorf("%s: %+v", command, got)
		}
		got = tryProcess(ctx, Process{Stop: make(chan struct{})}, command, "-f", s.file)
		if got.code != codeInterrupted || got.err != "kuberung: interrupted\n" {
			t.Errorf("%s: %+v, want 130", command, got)
		}
	}
}

func TestConfirm(t *testing.T) {
	stopped := make(chan struct{})
	close(stopped)
	silence, _ := io.Pipe()
	tests := []struct {
		name string
		in   io.Reader
		stop chan struct{}
		code int
		want string
		end  string // of the line that the question stands in, where nobody else ends it
	}{
		{"y", strings.NewReader("y\n"), nil, codeDone, "", ""},
		{"Yes", strings.NewReader(" Yes \n"), nil, codeDone, "", ""},
		{"n", strings.NewReader("n\n"), nil, codeStopped, "not confirmed; nothing was changed", ""},
		{"only return", strings.NewReader("\n"), nil, codeStopped, "not confirmed; nothing was changed", ""},
		{"a word", strings.NewReader("yep\n"), nil, codeStopped, "not confirmed; nothing was changed", ""},
		{"nobody", strings.NewReader(""), nil, codeUsage, "nobody answers: give --yes to go on without asking; nothing was changed", "\n"},
		{"an answer without its end", strings.NewReader("y"), nil, codeUsage, "nobody answers: give --yes to go on without asking; nothing was changed", "\n"},
		{"Ctrl-C", silence, stopped, codeStopped, "not confirmed; nothing was changed", "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := confirm(t.Context(), Process{In: tt.in, Out: &out, Stop: tt.stop}, "Upgrade prod?")
			var exit *exitError
			code := codeDone
			if errors.As(err, &exit) {
				code = exit.code
			}
			if code != tt.code || err != nil && err.Error() != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("got %d, %v, want %d, %q", code, err, tt.code, tt.want)
			}
			if out.String() != "\nUpgrade prod? [y/N] "+tt.end {
				t.Errorf("asked %q", out.String())
			}
		})
	}
}

// The question says what it is about: which cluster, from where, to where.
func TestTheQuestion(t *testing.T) {
	c := &config.Cluster{Name: "office", Target: "v1.36.3"}
	for from, want := range map[string]string{
		"v1.35.4": "Upgrade office v1.35.4 -> v1.36.3?",
		"v1.36.3": "Upgrade the rest of office to v1.36.3?",
	} {
		if got := question(c, from); got != want {
			t.Errorf("from %s it asks %q, want %q", from, got, want)
		}
	}
}
