package hosts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClockIsCorrectedForTheWay(t *testing.T) {
	at := time.Unix(1000, 0)
	way := span{at, at.Add(200 * time.Millisecond)}
	for _, tt := range []struct {
		name, says          string
		during              span
		offset, uncertainty time.Duration
		known               bool
	}{
		{"level", "1000.100000000\n", way, 0, 100 * time.Millisecond, true},
		{"ahead", "4600.100000000\n", way, time.Hour, 100 * time.Millisecond, true},
		{"behind", "999.000000000\n", way, -1100 * time.Millisecond, 100 * time.Millisecond, true},
		{"a date without nanoseconds", "1000.%N\n", way, 400 * time.Millisecond, 600 * time.Millisecond, true},
		{"another one", "1000.N\n", way, 400 * time.Millisecond, 600 * time.Millisecond, true},
		{"and another", "1000.\n", way, 400 * time.Millisecond, 600 * time.Millisecond, true},
		{"no date", "date: not found\n", way, 0, 0, false},
		{"no answer", "", way, 0, 0, false},
		{"no time of ours", "1000.100000000\n", span{}, 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Clock
			err := c.set(tt.says, tt.during)
			if (err == nil) != tt.known || c != (Clock{tt.offset, tt.uncertainty}) {
				t.Errorf("got %+v, %v, want %v ± %v, known %v", c, err, tt.offset, tt.uncertainty, tt.known)
			}
		})
	}
}

func TestParseCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n":                                               "2",
		"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n":                                                "1",
		"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n": "hybrid",
		"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\ncgroup /somewhere cgroup rw 0 0\n":                     "2",
		"": "", "nonsense": "",
	} {
		if got := parseCgroup(text); got != want {
			t.Errorf("of %q got %q, want %q", text, got, want)
		}
	}
}

func TestParseAddresses(t *testing.T) {
	for text, want := range map[string][]string{
		"10.0.0.1 172.17.0.1 2001:db8::1 fe80::1 \n": {"10.0.0.1", "172.17.0.1", "2001:db8::1"},
		"2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\n2: eth0 inet 10.0.0.1/32 scope global eth0:1\n": {"10.0.0.1"},
		"3: tun0    inet 10.8.0.2 peer 10.8.0.1/32 scope global tun0\n":                                                {"10.8.0.2"},
		"1: lo    inet6 ::1/128 scope host\n9: x inet\n":                                                               nil,
	} {
		if d := cmp.Diff(want, parseAddresses(text)); d != "" {
			t.Errorf("of %q (-want +got):\n%s", text, d)
		}
	}
}

func TestParseOS(t *testing.T) {
	for text, want := range map[string]OS{
		"NAME=Fedora\nID=fedora\nVERSION_ID=42\nPRETTY_NAME=\"Fedora Linux 42 (Server Edition)\"\n": {"fedora", "42", "Fedora Linux 42 (Server Edition)"},
		"# a comment\nID='my\\'os'\nPRETTY_NAME=\"A \\\"B\\\" \\$C \\\\\"\n":                        {"my'os", "", `A "B" $C \`},
		"ID=arch\n": {ID: "arch"}, "": {},
	} {
		if got := parseOS(text); got != want {
			t.Errorf("of %q got %+v, want %+v", text, got, want)
		}
	}
}

func TestParseInit(t *testing.T) {
	for text, want := range map[string]Init{
		"systemd\nsystemd-run\nsystemd 219\n": {"systemd", "219", true},
		"systemd\nsystemd 252 (252.22)\n":     {"systemd", "252 (252.22)", false},
		"init\n":                              {Name: "init"},
		"":                                    {},
	} {
		if got := parseInit(text); got != want {
			t.Errorf("of %q got %+v, want %+v", text, got, want)
		}
	}
}

func TestDisk(t *testing.T) {
	const head = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
	for _, tt := range []struct {
		name, df, inodes, mounts string
		want                     Disk
	}{
		{"plain", "/dev/sda1 4 1 3 25% /data\n", "/dev/sda1 10 4 6 40% /data\n", "/dev/sda1 /data xfs ro,relatime 0 0\n",
			Disk{Mount: "/data", Size: 4096, Free: 3072, Inodes: 10, FreeInodes: 6, Options: []string{"ro", "relatime"}}},
		{"names with spaces", "//nas/my share 4 1 3 25% /mnt/my share\n", "", "//nas/my\\040share /mnt/my\\040share cifs rw 0 0\n",
			Disk{Mount: "/mnt/my share", Size: 4096, Free: 3072}},
		{"without inodes", "/dev/sda1 4 1 3 25% /\n", "/dev/sda1 0 0 0 - /\n", "/dev/sda1 / btrfs rw 0 0\n",
			Disk{Mount: "/", Size: 4096, Free: 3072, Options: []string{"rw"}}},
		{"more than full", "/dev/sda1 4 5 -1 101% /\n", "", "", Disk{Mount: "/", Size: 4096, Free: -1024}},
		{"nonsense", "df: what?\n", "", "", Disk{Err: `df says "Filesystem 1024-blocks Used Available Capacity Mounted on df: what?"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := answer{"disk /p": head + tt.df, "inodes /p": head + tt.inodes, "mount /p": tt.mounts}
			if d := cmp.Diff(tt.want, a.disk("/p")); d != "" {
				t.Errorf("disk (-want +got):\n%s", d)
			}
		})
	}
}

// systemd 219 and 252 print the same unit differently.
func TestUnitOfAnOldSystemd(t *testing.T) {
	a := answer{"unit a": "EnvironmentFile=/etc/my file (ignore_errors=yes)\nExecStart={ path=/a }\nExecStart={ path=/b }\nLoadState=loaded\nActiveState=inactive\nMainPID=0\n", "?file /etc/my file": "cat: no\n"}
	want := SystemUnit{Load: "loaded", Active: "inactive", ExecStart: []string{"{ path=/a }", "{ path=/b }"},
		EnvironmentFiles: []string{"/etc/my file"}, Files: map[string]File{"/etc/my file": {Err: "cat: no"}}}
	if d := cmp.Diff(want, a.unit("a")); d != "" {
		t.Errorf("unit (-want +got):\n%s", d)
	}
	if u := (answer{"unit a": "Failed\n"}).unit("a"); u.Err != `systemctl says "Failed"` {
		t.Errorf("unit is %+v", u)
	}
}

func TestCertificatesThatAreNone(t *testing.T) {
	cert, _ := certificate(t, "a", time.Now())
	for _, tt := range []struct {
		name, key, text, want string
		number                int
	}{
		{"nothing", "", "", "", 0},
		{"nothing under the key", "k", "", "", 0},
		{"no PEM", "", "hello\n", "holds no certificate", 0},
		{"garbage", "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x509: malformed certificate", 0},
		{"garbage behind one", "", cert + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x509: malformed certificate", 1},
		{"no base64", "k", "§\n", "k: illegal base64 data at input byte 0", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := answer{"certificates /f": tt.text}.certificates(CertificateQuery{"/f", tt.key})
			if f.Err != tt.want || len(f.Certificates) != tt.number {
				t.Errorf("got %q and %d certificates, want %q and %d", f.Err, len(f.Certificates), tt.want, tt.number)
			}
		})
	}
}

// Whatever a host answers, nothing asked for is without both a value and a reason.
func FuzzFacts(f *testing.F) {
	const whole = "1000.1\n\nM kernel\n6.1\n\nM disk /\n/dev/a 4 1 3 25% /\n\nM unit u\nLoadState=loaded\nActiveState=active\n\nM program p\npath=/p\ncode=0\nsays=1\n\nM record r\nstate=none live=0 claimed=0 size=0\n\nM record-code r\n0\n\nM certificates /c\n\nM end\n"
	f.Add(whole)
	f.Add(strings.ReplaceAll(whole, "M ", "M ?"))
	f.Add(strings.ReplaceAll(whole, "M ", "M -") + "\nM end\n")
	f.Add("\nM end")
	f.Fuzz(func(t *testing.T, out string) {
		q := Query{Disks: []string{"/"}, Programs: []ProgramQuery{{Name: "p"}}, Units: []string{"u"}, Certificates: []CertificateQuery{{"/c", ""}}, Records: []string{"r"}}
		got, err := parseFacts(q, "M", out, during)
		if err != nil {
			return
		}
		if d := got.Disks["/"]; d.Mount == "" && d.Err == "" && !d.Absent {
			t.Errorf("disk is %+v", d)
		}
		if p := got.Programs["p"]; p.Says == "" && p.Err == "" && !p.Absent {
			t.Errorf("program is %+v", p)
		}
		if u := got.Units["u"]; (u.Load == "" || u.Active == "") && u.Err == "" {
			t.Errorf("unit is %+v", u)
		}
		if _, known := got.Records["r"]; !known {
			t.Error("the record is not there")
		}
		for field, empty := range map[string]bool{"Kernel": got.Kernel == "", "Arch": got.Arch == "", "OS": got.OS.ID == "", "Cgroup": got.Cgroup == "", "MachineID": got.MachineID == ""} {
			if empty && got.Unknown[field] == "" {
				t.Errorf("%s is empty without a reason", field)
			}
		}
	})
}
