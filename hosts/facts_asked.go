package hosts

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// asked fills what the query asked for.
func (f *Facts) asked(q Query, a answer) {
	f.Disks, f.Programs, f.Units = map[string]Disk{}, map[string]Program{}, map[string]SystemUnit{}
	f.Certificates, f.Records, f.More = map[string]CertificateFile{}, map[string]RecordFact{}, map[string]string{}
	for _, dir := range q.Disks {
		f.Disks[dir] = a.disk(dir)
	}
	for _, p := range q.Programs {
		f.Programs[p.Name] = a.program(p.Name)
	}
	for _, name := range q.Units {
		f.Units[name] = a.unit(name)
	}
	for _, c := range q.Certificates {
		f.Certificates[c.Path] = a.certificates(c)
	}
	for _, name := range q.Records {
		f.Records[name] = a.record(name)
	}
	running, err := a.get("running")
	f.told("Running", err)
	f.Running = parseRunning(running)
	for name, text := range a {
		if part, ok := strings.CutPrefix(name, "more "); ok {
			f.More[part] = text
		}
	}
}

// dfLine is a file system as df -P prints it: total, used, available, and where it is mounted.
var dfLine = regexp.MustCompile(`(?m)\s(\d+|-)\s+(?:\d+|-)\s+(-?\d+|-)\s+(?:\d+%|-)\s+(/.*)$`)

func (a answer) disk(dir string) Disk {
	text, err := a.get("disk " + dir)
	if err != nil {
		return Disk{Absent: errors.Is(err, errAbsent), Err: reasonUnlessAbsent(err)}
	}
	m := dfLine.FindStringSubmatch(text)
	if m == nil {
		return Disk{Err: fmt.Sprintf("df says %q", shorten(text, 200))}
	}
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n } // "-": not counted
	d := Disk{Mount: m[3], Size: number(m[1]) << 10, Free: number(m[2]) << 10}
	if m := dfLine.FindStringSubmatch(a["inodes "+dir]); m != nil {
		d.Inodes, d.FreeInodes = number(m[1]), number(m[2])
	}
	for line := range strings.Lines(a["mount "+dir]) {
		// What is mounted last hides the rest.
		if cols := strings.Fields(line); len(cols) > 3 && cols[1] == d.Mount {
			d.Options = strings.Split(cols[3], ",")
		}
	}
	return d
}

func reasonUnlessAbsent(err error) string {
	if errors.Is(err, errAbsent) {
		return ""
	}
	return err.Error()
}

func (a answer) program(name string) Program {
	text, err := a.get("program " + name)
	if err != nil {
		return Program{Absent: errors.Is(err, errAbsent), Err: reasonUnlessAbsent(err)}
	}
	text, says, _ := strings.Cut(text, "\nsays=")
	p := Program{Says: strings.TrimSpace(says)}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch key {
		case "path":
			p.Path = value
		case "real":
			p.Real = value
		case "package":
			words := append(strings.Fields(value), "", "", "")
			p.Package, p.Release, p.Held = words[0], words[1], words[2] == "hold"
		case "doubt":
			p.Doubt = value
		case "code":
			if value != "0" {
				p.Says, p.Err = "", "ended with status "+value+" when asked for its version"
			}
		}
	}
	if p.Package != "" {
		p.Doubt = ""
	}
	if p.Says == "" && p.Err == "" {
		p.Err = "says nothing when asked for its version"
	}
	return p
}

func (a answer) unit(name string) SystemUnit {
	text, err := a.get("unit " + name)
	if err != nil {
		return SystemUnit{Err: err.Error()}
	}
	u := SystemUnit{Files: map[string]File{}}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		u.set(key, value)
	}
	if u.Load == "" || u.Active == "" {
		return SystemUnit{Err: fmt.Sprintf("systemctl says %q", shorten(text, 200))}
	}
	for _, name := range append(append([]string{u.Fragment}, u.DropIns...), u.EnvironmentFiles...) {
		if name != "" {
			a.files(name, u.Files)
		}
	}
	if argv := strings.TrimSuffix(a["argv "+name], "\n"); argv != "" {
		for _, word := range strings.Split(argv, "\n") {
			u.Argv = append(u.Argv, strings.ReplaceAll(word, "\x1e", "\n"))
		}
	}
	return u
}

// set takes one property as systemctl show prints it. Before version 240 or so EnvironmentFiles is printed as
// EnvironmentFile.
func (u *SystemUnit) set(key, value string) {
	switch key {
	case "LoadState":
		u.Load = value
	case "ActiveState":
		u.Active = value
	case "SubState":
		u.Sub = value
	case "FragmentPath":
		u.Fragment = value
	case "DropInPaths":
		u.DropIns = append(u.DropIns, strings.Fields(value)...)
	case "ExecStart":
		u.ExecStart = append(u.ExecStart, value)
	case "Environment":
		u.Environment = value
	case "EnvironmentFiles", "EnvironmentFile":
		if i := strings.LastIndex(value, " (ignore_errors="); i > 0 {
			u.EnvironmentFiles = append(u.EnvironmentFiles, value[:i])
		}
	case "MainPID":
		u.PID, _ = strconv.Atoi(value) // none: 0
	}
}

// files gives the text of a file, or of all that a pattern means: environment files may be named by one.
func (a answer) files(name string, to map[string]File) {
	if strings.ContainsAny(name, "*?[") {
		for part, text := range a {
			if file, ok := strings.CutPrefix(part, "file "); ok && matches(name, file) {
				to[file] = File{Text: text}
			}
		}
		return
	}
	text, err := a.get("file " + name)
	if err != nil {
		to[name] = File{Absent: errors.Is(err, errAbsent), Err: reasonUnlessAbsent(err)}
		return
	}
	to[name] = File{Text: text}
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func (a answer) certificates(q CertificateQuery) CertificateFile {
	text, err := a.get("certificates " + q.Path)
	if err != nil {
		return CertificateFile{Absent: errors.Is(err, errAbsent), Err: reasonUnlessAbsent(err)}
	}
	var f CertificateFile
	pems := []byte(text)
	if q.Key != "" {
		if pems, err = decodeLines(text); err != nil {
			return CertificateFile{Err: q.Key + ": " + err.Error()}
		}
	}
	for block, rest := pem.Decode(pems); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			f.Err = err.Error()
			continue
		}
		f.Certificates = append(f.Certificates, Certificate{Subject: c.Subject.String(), NotBefore: c.NotBefore, NotAfter: c.NotAfter, CA: c.IsCA})
		pems = rest
	}
	if len(f.Certificates) == 0 && f.Err == "" && len(bytes.TrimSpace(pems)) > 0 {
		f.Err = "holds no certificate"
	}
	return f
}

// decodeLines decodes base64, one value a line, as YAML may quote it.
func decodeLines(text string) ([]byte, error) {
	var all []byte
	for line := range strings.Lines(text) {
		data, err := base64.StdEncoding.DecodeString(strings.Trim(strings.TrimSpace(line), `"'`))
		if err != nil {
			return nil, err
		}
		all = append(append(all, data...), '\n')
	}
	return all, nil
}

// record understands what pollText prints.
func (a answer) record(name string) RecordFact {
	text, err := a.get("record " + name)
	if err != nil {
		return RecordFact{Err: err}
	}
	if code, err := strconv.Atoi(strings.TrimSpace(a["record-code "+name])); err != nil || code != 0 {
		return RecordFact{Err: unitError(&ExitError{Command: "look at unit " + name, Code: code, Stderr: text})}
	}
	line, tail, _ := strings.Cut(text, "\n")
	rep, err := parseReport(line)
	return RecordFact{Record: rep.record(tail), Err: err}
}

// parseRunning gives our names of the systemd units in the first column.
func parseRunning(text string) []string {
	prefix, suffix, _ := strings.Cut(serviceName("*"), "*")
	var names []string
	for line := range strings.Lines(text) {
		name, ours := strings.CutPrefix(firstField(line), prefix)
		if name, whole := strings.CutSuffix(name, suffix); ours && whole {
			names = append(names, name)
		}
	}
	return names
}
