package hosts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// records are the known_hosts files of a network, each set read again only when a file has changed.
type records struct {
	mu   sync.Mutex
	read map[string]record // by the names of the files
}

type record struct {
	state string // sizes and times of the files when they were read
	db    *knownhosts.HostKeyDB
}

func newRecords() *records { return &records{read: map[string]record{}} }

// load reads files. One that is not there records nothing.
func (r *records) load(files []string) (*knownhosts.HostKeyDB, error) {
	var there []string
	state := ""
	for _, file := range files {
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		there = append(there, file)
		state += fmt.Sprintf("%d %d\n", info.Size(), info.ModTime().UnixNano())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.Join(there, "\n")
	if known, ok := r.read[id]; ok && known.state == state {
		return known.db, nil
	}
	for _, file := range there {
		if err := checkRevocations(file); err != nil {
			return nil, err
		}
	}
	db, err := knownhosts.NewDB(there...)
	if err != nil {
		return nil, err
	}
	r.read[id] = record{state, db}
	return db, nil
}

// checkRevocations refuses a file with a revocation that cannot be understood. Any other bad line is skipped by the
// library, which can only make us stricter.
func checkRevocations(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if !bytes.HasPrefix(line, []byte("@revoked")) {
			continue
		}
		if _, _, _, _, _, err := ssh.ParseKnownHosts(line); err != nil {
			return fmt.Errorf("%s:%d: this revocation cannot be understood (%w): correct it or take it out", file, n, err)
		}
	}
	return lines.Err()
}

// hostKeys is what known_hosts records of one target.
type hostKeys struct {
	records *records
	db      *knownhosts.HostKeyDB
	files   []string
	target  string // host:port that the files are searched for
	learn   bool   // record an unknown key and trust it

	accepted string // what was recorded, for people
}

// defaultKnownHosts are OpenSSH's own.
var defaultKnownHosts = []string{"~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"}

func (h *Host) hostKeys() (*hostKeys, error) {
	names := h.cfg.KnownHostsFiles
	if len(names) == 0 {
		names = defaultKnownHosts
	}
	target := net.JoinHostPort(canonical(h.cfg.Address), strconv.Itoa(h.cfg.port()))
	k := &hostKeys{records: h.net.records, target: target, learn: h.cfg.AcceptNew}
	if h.cfg.HostKeyAlias != "" {
		k.target = net.JoinHostPort(h.cfg.HostKeyAlias, "22") // an alias stands without a port
	}
	for _, name := range names {
		file, err := expandHome(name)
		if err != nil {
			return nil, err
		}
		k.files = append(k.files, file)
	}
	var err error
	k.db, err = k.records.load(k.files)
	return k, err
}

// canonical spells an address as OpenSSH records it: else a host that is known would be a new one.
func canonical(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.String()
	}
	return strings.ToLower(address)
}

// algorithms are those of the recorded keys, so that the server offers a key we can compare
// (golang/go#29286). For an unknown host they are all but certificates, which nobody could verify, and first the one
// whose key a person can read out.
func (k *hostKeys) algorithms() []string {
	if recorded := k.recorded(); len(recorded) > 0 {
		return recorded
	}
	plain := []string{ssh.KeyAlgoED25519}
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		if !strings.Contains(a, "-cert-") && a != ssh.KeyAlgoED25519 {
			plain = append(plain, a)
		}
	}
	return plain
}

// recorded is empty for an unknown host.
func (k *hostKeys) recorded() []string { return k.db.HostKeyAlgorithms(k.target) }

// check compares the offered key with the record. Errors are *keyError.
func (k *hostKeys) check(ctx context.Context, key ssh.PublicKey) error {
	// The record is looked up by name; the address argument only has to have the form of one.
	err := k.db.HostKeyCallback()(k.target, &net.TCPAddr{IP: net.IPv4zero, Port: 22}, key)
	if err == nil {
		return nil
	}
	offered := key.Type() + " " + ssh.FingerprintSHA256(key)
	var bad *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		return changed("%s:%d revokes the offered key (%s); do not connect", revoked.Revoked.Filename, revoked.Revoked.Line, offered)
	case errors.As(err, &bad) && len(bad.Want) > 0:
		return changed("is not the recorded one: %s has %s, offered was %s\nif the host was reinstalled, remove the old entry: %s\nif not, somebody may be in between",
			places(bad.Want), fingerprints(bad.Want), offered, Quote("ssh-keygen", "-f", bad.Want[0].Filename, "-R", knownhosts.Normalize(k.target)))
	case errors.As(err, &bad) && k.learn:
		return k.accept(ctx, key)
	case errors.As(err, &bad):
		return unknown("%s is not in %s for %s\ncompare it with what the host's console prints: ssh-keygen -lf /etc/ssh/ssh_host_%s_key.pub\nthen record it: %s",
			offered, strings.Join(k.files, " or "), knownhosts.Normalize(k.target), keyFileType(key), k.howToRecord(key))
	}
	return changed("%s offers a certificate (%s) that %s does not vouch for: %w; record the right authority for it there with @cert-authority, or its plain key",
		knownhosts.Normalize(k.target), offered, strings.Join(k.files, ", "), err)
}

// keyError is what is wrong with a host key.
type keyError struct {
	kind error // ErrHostKeyUnknown or ErrHostKeyChanged, which the text need not repeat
	why  error
}

func (e *keyError) Error() string   { return e.why.Error() }
func (e *keyError) Unwrap() []error { return []error{e.kind, e.why} }

func unknown(format string, args ...any) error {
	return &keyError{ErrHostKeyUnknown, fmt.Errorf(format, args...)}
}

func changed(format string, args ...any) error {
	return &keyError{ErrHostKeyChanged, fmt.Errorf(format, args...)}
}

// recordLimit is how long another program may hold the lock on known_hosts.
const recordLimit = 5 * time.Second

// accept writes the key of a host that is new to the first file. Only what is on disk is trusted.
func (k *hostKeys) accept(ctx context.Context, key ssh.PublicKey) error {
	file := k.files[0]
	fail := func(err error) error {
		return unknown("%s is to be recorded in %s: %w", ssh.FingerprintSHA256(key), file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recordLimit, &limitError{recordLimit})
	defer cancel()
	lock := flock.New(file, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	if ok, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil || !ok {
		return fail(errors.Join(err, errors.New("cannot lock it")))
	}
	defer lock.Unlock()
	// Somebody else may have recorded the host since we looked: their word counts.
	fresh, err := knownhosts.NewDB(file)
	if err != nil {
		return fail(err)
	}
	if known := len(fresh.HostKeyAlgorithms(k.target)) > 0; !known {
		if err := appendLine(file, knownhosts.Line([]string{k.target}, key)); err != nil {
			return fail(err)
		}
		k.accepted = fmt.Sprintf("%s %s, recorded in %s", key.Type(), ssh.FingerprintSHA256(key), file)
	}
	if err := k.checkAgain(ctx, key); err != nil {
		k.accepted = ""
		return err
	}
	return nil
}

// checkAgain reads the record once more, which counts from now on: the key is checked whenever keys are exchanged anew.
func (k *hostKeys) checkAgain(ctx context.Context, key ssh.PublicKey) (err error) {
	if k.db, err = k.records.load(k.files); err != nil {
		return unknown("%w", err)
	}
	strict := *k
	strict.learn = false
	return strict.check(ctx, key)
}

// appendLine adds a line to the end of a file and syncs it. A last line that nobody ended is ended first.
func appendLine(file, line string) (err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		return err
	}
	return f.Sync()
}

// noCommon explains a server that has none of the recorded types of key.
func (k *hostKeys) noCommon(err error) error {
	return changed("%s records %s for %s, but the server has no such key: %w", strings.Join(k.files, ", "), strings.Join(k.recorded(), ", "), k.target, err)
}

// howToRecord is the command that records the offered key, and no other that might be offered later.
func (k *hostKeys) howToRecord(key ssh.PublicKey) string {
	command := Quote("echo", knownhosts.Line([]string{k.target}, key)) + " >> " + Quote(k.files[0])
	if dir := filepath.Dir(k.files[0]); !exists(dir) {
		command = Quote("mkdir", "-pm", "700", dir) + " && " + command
	}
	return command
}

// keyFileType is the type of a key as ssh-keyscan and the names of sshd's key files spell it.
func keyFileType(key ssh.PublicKey) string {
	t := strings.TrimPrefix(key.Type(), "ssh-")
	if strings.HasPrefix(t, "ecdsa-") {
		return "ecdsa"
	}
	return t
}

func places(keys []xknownhosts.KnownKey) string {
	var out []string
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%s:%d", k.Filename, k.Line))
	}
	return strings.Join(out, ", ")
}

func fingerprints(keys []xknownhosts.KnownKey) string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Key.Type()+" "+ssh.FingerprintSHA256(k.Key))
	}
	return strings.Join(out, ", ")
}
