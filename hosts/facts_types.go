package hosts

import "time"

// Facts is what one host tells of itself: plain data.
type Facts struct {
	At    time.Time // when the host answered, by our clock
	Clock Clock

	OS       OS
	Packages string // package manager: "apt", "dnf", "yum", "zypper" or "none"
	Arch     string // as Go spells it: "amd64"
	Kernel   string // release: "6.1.0-18-amd64"
	Cgroup   string // version of the hierarchy: "1", "2" or "hybrid"
	Init     Init
	Hostname string

	MachineID string
	BootID    string
	Uptime    time.Duration
	Addresses []string // IP addresses of interfaces that are up, without loopback and link-local ones

	Memory    int64  // bytes in all
	Available int64  // bytes that programs could still get
	Swap      []Swap // in use
	SELinux   string // "enforcing", "permissive", "disabled" or "absent"
	AppArmor  bool

	Disks        map[string]Disk            // by path
	Programs     map[string]Program         // by name
	Units        map[string]SystemUnit      // by name
	Certificates map[string]CertificateFile // by path
	Running      []string                   // our detached units that are at work, by our names
	Records      map[string]RecordFact      // by our names of detached units
	More         map[string]string          // what Query.More printed, by part

	// Unknown gives the reason for each field above that could not be told, by its name: "Swap". Such a field is
	// empty, which then says nothing.
	Unknown map[string]string
}

// Clock is the host's clock against ours.
type Clock struct {
	Offset      time.Duration // positive: the host's is ahead
	Uncertainty time.Duration // the truth is at most so far from Offset
}

// OS is what /etc/os-release says.
type OS struct{ ID, Version, Name string } // "debian", "12", "Debian GNU/Linux 12 (bookworm)"

// Init is the program that runs the host.
type Init struct {
	Name       string // "systemd", or what process 1 is
	Systemd    string // version: "252 (252.22-1~deb12u1)"; empty without systemctl
	SystemdRun bool   // there is a systemd-run
}

// Swap is a swap device or file in use.
type Swap struct {
	Path string
	Size int64 // bytes
}

// Disk is the file system below a path.
type Disk struct {
	Mount      string // where it is mounted
	Size, Free int64  // bytes
	Inodes     int64  // 0: the file system does not count them
	FreeInodes int64
	Options    []string // of the mount: "ro", "noexec", …; nil: not known
	Absent     bool     // there is no such path
	Err        string   // why it could not be told
}

// Program is an installed program.
type Program struct {
	Path    string // where it was found
	Real    string // the same, with symbolic links resolved
	Says    string // what it says of its version
	Package string // that it came with; empty: none
	Doubt   string // why it could not be told if it came with one; empty if it could
	Release string // version of that package
	Held    bool   // the package manager is told to leave that package alone
	Absent  bool   // there is no such program
	Err     string // why it does not say its version, or could not be looked for
}

// SystemUnit is a unit as systemd has it.
type SystemUnit struct {
	Load, Active, Sub string   // "loaded", "active", "running"
	Fragment          string   // path of its main file
	DropIns           []string // paths
	ExecStart         []string // as systemctl show prints it
	Environment       string   // as systemctl show prints it
	EnvironmentFiles  []string // paths, in order: the last that sets a name wins
	Files             map[string]File
	PID               int      // of the main process; 0: none runs
	Argv              []string // its command line; nil: not known
	Err               string   // why it could not be told
}

// File is a text on the host.
type File struct {
	Text   string // its first 256 KiB
	Absent bool
	Err    string // why it could not be read
}

// CertificateFile is what certificates a file holds. None at all is no error: a kubeconfig may name a file instead.
type CertificateFile struct {
	Certificates []Certificate // in the order of the file
	Absent       bool
	Err          string // why it could not be read, or what in it is no certificate
}

// Certificate is what matters of one certificate.
type Certificate struct {
	Subject             string // "O=system:nodes,CN=…"
	NotBefore, NotAfter time.Time
	CA                  bool
}

// RecordFact is the record of a detached unit, or why it could not be told.
type RecordFact struct {
	Record Record
	Err    error // as [Host.UnitRecord] gives it
}
