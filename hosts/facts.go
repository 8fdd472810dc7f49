package hosts

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed facts.sh
var factsText string

// factsLimit is for a host on which several programs hang.
const factsLimit = 90 * time.Second

// Query says what Facts are to tell beyond the host itself.
type Query struct {
	Disks        []string // paths
	Programs     []ProgramQuery
	Units        []string // systemd units: "sshd.service"
	Certificates []CertificateQuery
	Records      []string // detached units, as [Unit] names them

	// More is a text for /bin/sh with the arguments Args, run as the rest is: as root, in /, reading nothing. What
	// it prints after a call of "part NAME" is Facts.More[NAME]; "limited COMMAND" ends a command that hangs.
	More string
	Args []string
}

// ProgramQuery asks for a program.
type ProgramQuery struct {
	Name    string
	Version []string // arguments with which it tells its version
	Unit    string   // the unit whose program is meant; empty, or one that starts none: what the search path finds
}

// CertificateQuery asks for the certificates in a file.
type CertificateQuery struct {
	Path string
	Key  string // the file is YAML and holds them as base64 under this key; empty: it is PEM
}

// Facts reads what q asks for in one round trip, as root, and changes nothing. What could not be told is told so in
// the result; the error is for an answer that did not come, or not whole.
//
// The texts of units and of the files they read may hold secrets: they are for looking into, not for printing.
func (h *Host) Facts(ctx context.Context, q Query) (Facts, error) {
	mark := rand.Text()
	var during span
	out, err := h.exec(ctx, request{
		label: "read facts", text: h.factsScript(q), args: []string{mark}, privileged: true, limit: factsLimit, span: &during,
	})
	if err != nil {
		return Facts{}, err
	}
	f, err := parseFacts(q, mark, string(out), during)
	if err != nil {
		return Facts{}, fmt.Errorf("facts of %s: %w", h.name, err)
	}
	return f, nil
}

// factsScript is facts.sh with a call for everything asked for.
func (h *Host) factsScript(q Query) string {
	var b strings.Builder
	b.WriteString(factsText)
	call := func(words ...string) { b.WriteString(Quote(words...) + "\n") }
	for _, path := range q.Disks {
		call("disk", path)
	}
	for _, p := range q.Programs {
		call(append([]string{"program", p.Name, p.Unit}, p.Version...)...)
	}
	for _, unit := range q.Units {
		call("unit", unit)
	}
	for _, c := range q.Certificates {
		call("certificates", c.Path, c.Key)
	}
	call("ask", "running", "systemctl", "list-units", "--plain", "--no-legend", "--state=active,activating,deactivating,reloading", serviceName("*"))
	b.WriteString("record() (" + unitText + pollText + "\n)\n")
	for _, name := range q.Records {
		call("part", "record "+name)
		look := Quote("record", h.tune.stateDir, name, strconv.Itoa(-tailSize), strconv.Itoa(tailSize))
		fmt.Fprintf(&b, "%s 2>&1\ncode=$?; part %s; echo $code\n", look, Quote("record-code "+name))
	}
	b.WriteString("(\npart() { printf '\\n%s more %s\\n' \"$mark\" \"$1\"; }\nset -- " + Quote(q.Args...) + "\n" + q.More + "\n)\n")
	b.WriteString("part end\nexit 0\n")
	return b.String()
}
