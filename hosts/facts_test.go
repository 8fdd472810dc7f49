package hosts

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gliderssh "github.com/gliderlabs/ssh"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// rig is a root directory and a directory of programs that the script of facts is let loose on.
type rig struct {
	t         *testing.T
	root, bin string
	shell     []string
}

// shells are those of this machine that a host may have as /bin/sh.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{"sh": {"/bin/sh"}}
	for name, argv := range map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "ash"}, "mksh": {"mksh"}} {
		if file, err := exec.LookPath(argv[0]); err == nil {
			found[name] = append([]string{file}, argv[1:]...)
		}
	}
	return found
}

func newRig(t *testing.T, shell []string) *rig {
	t.Helper()
	r := &rig{t, t.TempDir(), t.TempDir(), shell}
	for _, name := range strings.Fields("cat date df grep head ls readlink sed tail timeout tr wc") {
		file, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, filepath.Join(r.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) file(name, text string) {
	r.t.Helper()
	name = r.root + name
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) program(name, script string) {
	r.t.Helper()
	file := filepath.Join(r.bin, name)
	_ = os.Remove(file) // a link to a program of this machine
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// run gives what the script prints when its absolute paths lie below the root.
func (r *rig) run(q Query) string {
	r.t.Helper()
	h := New(Config{Address: "a"})
	h.tune.stateDir = r.root + "/var/lib/kuberung"
	text := h.factsScript(q)
	for _, dir := range []string{"/proc/", "/sys/", "/etc/", "/run/systemd", "/var/lib/dpkg", "/var/lib/dbus", "/usr/lib/os-release"} {
		text = strings.ReplaceAll(text, " "+dir, " "+r.root+dir)
		text = strings.ReplaceAll(text, "<"+dir, "<"+r.root+dir)
	}
	cmd := exec.CommandContext(r.t.Context(), r.shell[0], append(r.shell[1:], "-s", "MARK")...)
	cmd.Env = []string{"PATH=" + r.bin, "BIN=" + r.bin, "ROOT=" + r.root, "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatal(err)
	}
	return string(out)
}

var during = span{time.Unix(1_800_000_000, 0), time.Unix(1_800_000_002, 0)}

func (r *rig) facts(q Query) Facts {
	r.t.Helper()
	out := strings.ReplaceAll(r.run(q), r.root, "")
	f, err := parseFacts(q, "MARK", strings.ReplaceAll(out, r.bin, "/usr/bin"), during)
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// certificate makes a certificate and the private key beside it, as programs keep them in one file.
func certificate(t testing.TB, name string, until time.Time) (cert, key string) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{"o"}}, NotBefore: until.Add(-time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, c, c, pub, priv)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

const showAgent = `case $* in
*-p\ ExecStart\ agent.service) echo "ExecStart={ path=$BIN/agent-of-unit ; argv[]=$BIN/agent-of-unit \$FLAGS ; ignore_errors=no }" ;;
*agent.service) printf '%s\n' LoadState=loaded ActiveState=active SubState=running FragmentPath=$ROOT/etc/agent.service \
	"DropInPaths=$ROOT/etc/a.conf $ROOT/etc/gone.conf" 'ExecStart={ path=/a ; argv[]=/a $FLAGS }' 'Environment=A=b' \
	"EnvironmentFiles=$ROOT/etc/default/agent (ignore_errors=yes)" "EnvironmentFiles=$ROOT/etc/env.d/*.env (ignore_errors=no)" MainPID=17 ;;
*absent.service) printf '%s\n' LoadState=not-found ActiveState=inactive SubState=dead FragmentPath= DropInPaths= Environment= MainPID=0 ;;
"show -p ActiveState -p Job "*) printf 'Job=0\nActiveState=inactive\n' ;;
list-units*) printf 'kuberung-move-v1.service loaded active running kuberung: move\nother.service loaded active\n' ;;
--version) printf 'systemd 252 (252.22-1~deb12u1)\n+PAM +AUDIT\n' ;;
*) echo "systemctl: unexpected $*" >&2; exit 64 ;;
esac`

// debian is a machine with everything that facts tell of.
func debian(t *testing.T, shell []string) (*rig, Query, Facts) {
	r := newRig(t, shell)
	until := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	cert, key := certificate(t, "agent", until)
	second, _ := certificate(t, "second", until)
	r.file("/etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID='12'\n")
	r.file("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	r.file("/proc/sys/kernel/hostname", "Box\n")
	r.file("/proc/sys/kernel/random/boot_id", "b-o-o-t\n")
	r.file("/proc/uptime", "90.50 100.00\n")
	r.file("/proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n")
	r.file("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2                               partition\t4194300\t\t0\t\t-2\n")
	r.file("/proc/mounts", "/dev/sda1 / ext4 ro 0 0\n/dev/sda1 / ext4 rw,noexec 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
	r.file("/proc/17/cmdline", "/a\x00--one=1\x00two\nlines\x00")
	r.file("/sys/fs/selinux/enforce", "1")
	r.file("/sys/module/apparmor/parameters/enabled", "Y\n")
	r.file("/var/lib/dpkg/status", "")
	r.file("/run/systemd/system/x", "")
	r.file("/etc/agent.service", "[Service]\nExecStart=/a $FLAGS\n")
	r.file("/etc/a.conf", "[Service]\n")
	r.file("/etc/default/agent", "FLAGS=--one=1\n")
	r.file("/etc/env.d/x.env", "X=1\n")
	r.file("/etc/pki/both.pem", key+cert+second)
	r.file("/etc/pki/conf", "users:\n- user:\n    client-data: \""+base64.StdEncoding.EncodeToString([]byte(cert))+"\"\n    key-data: "+base64.StdEncoding.EncodeToString([]byte(key))+"\n")
	r.file("/var/lib/kuberung/units/done/id", "abc\n")
	r.file("/var/lib/kuberung/units/done/output", "all\nwell\n")
	r.file("/var/lib/kuberung/units/done/status", "code=3 started=10 ended=20\n")
	r.program("df", `case $1 in
-Pi) printf 'Filesystem Inodes IUsed IFree IUse%% Mounted on\n/dev/sda1 1000 400 600 40%% /\n' ;;
*) printf 'Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 4096 1024 3072 25%% /\n' ;;
esac`)
	r.program("uname", `[ "$1" = -m ] && echo x86_64 || echo 6.1.0-18-amd64`)
	r.program("ip", `printf '%s\n' '1: lo    inet 127.0.0.1/8 scope host lo' '2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\       valid_lft forever' '2: eth0    inet6 2001:DB8::1/64 scope global' '2: eth0    inet6 fe80::1/64 scope link'`)
	r.program("systemctl", showAgent)
	for _, name := range []string{"systemd-run", "apt-get", "rpm"} {
		r.program(name, "exit 1")
	}
	r.program("agent", "echo wrong")
	r.program("agent-of-unit", `[ "$*" = "version -o short" ] && echo v1.2.3`)
	r.program("loose", "echo loose 1.0; echo more")
	r.program("dumb", "exit 2")
	r.program("dpkg-query", `case $1 in
-S) for f; do case $f in */agent-of-unit) echo "diversion by x from: $f"; echo "agent:amd64, agent:i386: $f" ;; esac; done ;;
-W) [ "$4" = agent ] && echo '1.2.3-1 hold' ;;
esac`)
	q := Query{
		Disks:    []string{r.root + "/etc", r.root + "/nowhere"},
		Programs: []ProgramQuery{{"agent", []string{"version", "-o", "short"}, "agent.service"}, {"loose", nil, ""}, {"dumb", nil, "absent.service"}, {"nothing", nil, ""}},
		Units:    []string{"agent.service", "absent.service"},
		Certificates: []CertificateQuery{
			{r.root + "/etc/pki/both.pem", ""}, {r.root + "/etc/pki/conf", "client-data"}, {r.root + "/etc/pki/gone", ""}},
		Records: []string{"done", "never"},
		More:    "part first\necho \"$2\"\npart second\nprintf '\\nMARK\\n#@ end\\n'\nexit 7",
		Args:    []string{"a", "it's"},
	}
	agent := Certificate{Subject: "CN=agent,O=o", NotBefore: until.Add(-time.Hour), NotAfter: until}
	other := agent
	other.Subject = "CN=second,O=o"
	return r, q, Facts{
		At: during.began, OS: OS{"debian", "12", "Debian GNU/Linux 12 (bookworm)"}, Packages: "apt", Arch: "amd64", Kernel: "6.1.0-18-amd64",
		Cgroup: "2", Init: Init{"systemd", "252 (252.22-1~deb12u1)", true}, Hostname: "Box",
		MachineID: "0123456789abcdef0123456789abcdef", BootID: "b-o-o-t", Uptime: 90500 * time.Millisecond, Addresses: []string{"10.0.0.1", "2001:db8::1"},
		Memory: 2 << 20, Available: 1 << 20, Swap: []Swap{{"/dev/sda2", 4194300 << 10}}, SELinux: "enforcing", AppArmor: true,
		Disks: map[string]Disk{
			"/etc":     {Mount: "/", Size: 4 << 20, Free: 3 << 20, Inodes: 1000, FreeInodes: 600, Options: []string{"rw", "noexec"}},
			"/nowhere": {Absent: true},
		},
		Programs: map[string]Program{
			"agent":   {Path: "/usr/bin/agent-of-unit", Real: "/usr/bin/agent-of-unit", Says: "v1.2.3", Package: "agent", Release: "1.2.3-1", Held: true},
			"loose":   {Path: "/usr/bin/loose", Real: "/usr/bin/loose", Says: "loose 1.0\nmore"},
			"dumb":    {Path: "/usr/bin/dumb", Real: "/usr/bin/dumb", Err: "ended with status 2 when asked for its version"},
			"nothing": {Absent: true},
		},
		Units: map[string]SystemUnit{
			"agent.service": {
				Load: "loaded", Active: "active", Sub: "running", Fragment: "/etc/agent.service", DropIns: []string{"/etc/a.conf", "/etc/gone.conf"},
				ExecStart: []string{"{ path=/a ; argv[]=/a $FLAGS }"}, Environment: "A=b", EnvironmentFiles: []string{"/etc/default/agent", "/etc/env.d/*.env"},
				Files: map[string]File{
					"/etc/agent.service": {Text: "[Service]\nExecStart=/a $FLAGS\n"}, "/etc/a.conf": {Text: "[Service]\n"}, "/etc/gone.conf": {Absent: true},
					"/etc/default/agent": {Text: "FLAGS=--one=1\n"}, "/etc/env.d/x.env": {Text: "X=1\n"},
				},
				PID: 17, Argv: []string{"/a", "--one=1", "two\nlines"},
			},
			"absent.service": {Load: "not-found", Active: "inactive", Sub: "dead", Files: map[string]File{}},
		},
		Certificates: map[string]CertificateFile{
			"/etc/pki/both.pem": {Certificates: []Certificate{agent, other}}, "/etc/pki/conf": {Certificates: []Certificate{agent}}, "/etc/pki/gone": {Absent: true},
		},
		Running: []string{"move-v1"},
		Records: map[string]RecordFact{
			"done": {Record: Record{State: Exited, Code: 3, Started: time.Unix(10, 0).UTC(), Ended: time.Unix(20, 0).UTC(), Tail: "all\nwell\n"}}, "never": {},
		},
		More:    map[string]string{"first": "it's\n", "second": "\nMARK\n#@ end\n"},
		Unknown: map[string]string{},
	}
}

// below is a query for paths under the root, as it would be for the machine itself.
func below(q Query, root string) Query {
	strip := func(s string) string { return strings.TrimPrefix(s, root) }
	disks, certificates := []string{}, []CertificateQuery{}
	for _, d := range q.Disks {
		disks = append(disks, strip(d))
	}
	for _, c := range q.Certificates {
		certificates = append(certificates, CertificateQuery{strip(c.Path), c.Key})
	}
	q.Disks, q.Certificates = disks, certificates
	return q
}

func TestFactsOfAWholeMachine(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			r, q, want := debian(t, shell)
			out := r.run(q)
			if strings.Contains(out, "PRIVATE KEY") {
				t.Error("a private key is in the output")
			}
			out = strings.ReplaceAll(strings.ReplaceAll(out, r.root, ""), r.bin, "/usr/bin")
			got, err := parseFacts(below(q, r.root), "MARK", out, during)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(Facts{}, "Clock")); d != "" {
				t.Errorf("facts (-want +got):\n%s", d)
			}
			for i := 0; i < strings.LastIndex(out, "MARK end"); i += 101 {
				if _, err := parseFacts(q, "MARK", out[:i], during); err == nil {
					t.Fatalf("an answer cut after %d of %d bytes is no error", i, len(out))
				}
			}
		})
	}
}

// What a bare machine does not tell is not taken for the answer "none".
func TestFactsSayWhatIsNotKnown(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, shell)
			q := Query{Programs: []ProgramQuery{{Name: "agent"}}, Units: []string{"agent.service"}, Records: []string{"done"}, Disks: []string{"/"}}
			r.program("df", "echo 'df: no file systems processed' >&2; exit 1")
			r.file("/proc/swaps", "")
			f := r.facts(q)
			for _, field := range strings.Fields("OS Arch Kernel Cgroup Init Hostname MachineID BootID Uptime Addresses Memory Swap Running") {
				if f.Unknown[field] == "" {
					t.Errorf("%s is not told to be unknown: %q", field, f.Unknown)
				}
			}
			if f.SELinux != "absent" || f.Packages != "none" || f.AppArmor || f.Unknown["AppArmor"] != "" {
				t.Errorf("SELinux %q, packages %q, AppArmor %v", f.SELinux, f.Packages, f.AppArmor)
			}
			if d := f.Disks["/"]; d.Err != "df: no file systems processed" {
				t.Errorf("the disk is %+v", d)
			}
			if u := f.Units["agent.service"]; u.Err == "" {
				t.Errorf("the unit is %+v", u)
			}
			if rec := f.Records["done"]; rec.Err == nil {
				t.Errorf("the record is %+v", rec)
			}
			if p := f.Programs["agent"]; !p.Absent {
				t.Errorf("the program is %+v", p)
			}
		})
	}
}

// A host that systemd does not run is told by the record as by UnitRecord.
func TestFactsOfARecordWithoutSystemd(t *testing.T) {
	r := newRig(t, []string{"/bin/sh"})
	r.program("systemctl", "echo \"System has not been booted with systemd as init system (PID 1). Can't operate.\" >&2; exit 1")
	if err := r.facts(Query{Records: []string{"a"}}).Records["a"].Err; !errors.Is(err, ErrNoSystemdRun) {
		t.Errorf("error is %v, want %v", err, ErrNoSystemdRun)
	}
}

func TestFactsFindTheOwnerOfAProgram(t *testing.T) {
	for _, tt := range []struct{ name, dpkg, rpm, lock, want string }{
		{"a package of rpm", "", `case $* in *"{NAME}"*) echo "file $4 is not owned by any package"; echo 'owner agent 1.2-3.el9' ;; esac`, "", "agent 1.2-3.el9 false"},
		{"one that is held", "", "echo owner agent 1.2", "# other\nagent-0:1.2-*\n", "agent 1.2 true"},
		{"a lock of another", "", "echo owner agent 1.2", "# agent\nagents\n", "agent 1.2 false"},
		{"known before /usr was merged", `for f; do [ "$f" != "/usr$BIN/agent" ] || echo "agent: $f"; done`, "", "", "agent  false"},
		{"no package", "exit 1", "echo 'file /a is not owned by any package'; exit 1", "", "  false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, []string{"/bin/sh"})
			r.program("agent", "echo 1.2")
			if tt.dpkg != "" {
				r.program("dpkg-query", "[ $1 = -S ] || exit 1\n"+tt.dpkg)
			}
			if tt.rpm != "" {
				r.program("rpm", tt.rpm)
			}
			r.file("/etc/dnf/plugins/versionlock.list", tt.lock)
			p := r.facts(Query{Programs: []ProgramQuery{{Name: "agent"}}}).Programs["agent"]
			held := map[bool]string{true: "true", false: "false"}[p.Held]
			if got := p.Package + " " + p.Release + " " + held; got != tt.want || p.Says != "1.2" || p.Doubt != "" {
				t.Errorf("got %q of %+v, want %q", got, p, tt.want)
			}
		})
	}
}

// What cannot be looked at may be there: a loop stands for a disk that does not answer.
func TestFactsOfWhatCannotBeLookedAt(t *testing.T) {
	r := newRig(t, []string{"/bin/sh"})
	r.file("/etc/there", "")
	if err := os.Symlink("loop", r.root+"/etc/loop"); err != nil {
		t.Fatal(err)
	}
	file, none := "/etc/loop/file", "/etc/none"
	f := r.facts(Query{Disks: []string{file, none}, Certificates: []CertificateQuery{{Path: file}, {Path: none}}})
	if d := f.Disks[file]; d.Absent || d.Err == "" {
		t.Errorf("disk: %+v", d)
	}
	if c := f.Certificates[file]; c.Absent || c.Err == "" {
		t.Errorf("certificate: %+v", c)
	}
	if !f.Disks[none].Absent || !f.Certificates[none].Absent {
		t.Errorf("not there: %+v, %+v", f.Disks[none], f.Certificates[none])
	}
}

// A package manager that cannot tell has not said that there is no package.
func TestFactsDoubtTheOwnerOfAProgram(t *testing.T) {
	for _, tt := range []struct{ name, program, script, want string }{
		{"rpm", "rpm", "echo 'error: file /a: No such file or directory' >&2; echo 'error: rpmdb open failed' >&2; exit 1", "error: rpmdb open failed"},
		{"dpkg", "dpkg-query", "echo 'dpkg-query: error: failed to open package info file' >&2; exit 2", "dpkg-query: error: failed to open package info file"},
		{"hangs", "rpm", "exit 124", "rpm hangs"},
		{"not there under its other name", "rpm", "echo 'error: file /a: No such file or directory' >&2; echo 'file /b is not owned by any package'; exit 1", ""},
		{"a pattern that nothing fits", "dpkg-query", "echo 'dpkg-query: no path found matching pattern /a' >&2; exit 1", ""},
		{"a lost list of another package", "dpkg-query", "echo \"dpkg-query: warning: files list file for package 'x' missing\" >&2; exit 1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, []string{"/bin/sh"})
			r.program("agent", "echo 1.2")
			r.program(tt.program, tt.script)
			p := r.facts(Query{Programs: []ProgramQuery{{Name: "agent"}}}).Programs["agent"]
			if p.Doubt != tt.want || p.Package != "" || p.Says != "1.2" {
				t.Errorf("got %+v, want the doubt %q", p, tt.want)
			}
		})
	}
}

// However a file is broken, what follows the certificate in it stays on the host.
func TestFactsNeverReadPrivateKeys(t *testing.T) {
	cert, key := certificate(t, "a", time.Now())
	secret := strings.Split(key, "\n")[1]
	for _, text := range []string{
		key + cert, cert + key, strings.Replace(cert, "-----END CERTIFICATE-----\n", "", 1) + key, cert[:80] + key, "-----BEGIN CERTIFICATE-----" + key,
	} {
		for _, shell := range shells(t) {
			r := newRig(t, shell)
			r.file("/a.pem", text)
			if out := r.run(Query{Certificates: []CertificateQuery{{r.root + "/a.pem", ""}}}); strings.Contains(out, secret) {
				t.Errorf("the key of\n%s\nis in the answer", text)
			}
		}
	}
}

// Through SSH everything comes in one session, and the clock of the same machine does not differ from ours.
func TestFactsThroughSSH(t *testing.T) {
	var sessions atomic.Int64
	s := startServer(t, func(s *server) {
		run := s.Handler
		s.Handler = func(sess gliderssh.Session) { sessions.Add(1); run(sess) }
	})
	h := s.host(t, nil)
	f, err := h.Facts(t.Context(), Query{Disks: []string{"/"}, Records: []string{"never"}, More: "part x; printf '%s' \"$1\"", Args: []string{"é"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := sessions.Load(); n != 1 {
		t.Errorf("it took %d sessions", n)
	}
	if f.Clock.Offset.Abs() > f.Clock.Uncertainty || f.Clock.Uncertainty <= 0 || f.At.IsZero() || f.Unknown["Clock"] != "" {
		t.Errorf("the clock is %+v at %v, %q", f.Clock, f.At, f.Unknown["Clock"])
	}
	if f.More["x"] != "é" || f.Disks["/"].Size == 0 || f.Records["never"] != (RecordFact{}) || f.Kernel == "" {
		t.Errorf("facts are %+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Facts(ctx, Query{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
