package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
)

// ignoredPreflight are kubeadm's checks that say something about the machine, not about a container on it.
var ignoredPreflight = []string{"SystemVerification", "Swap", "Mem", "NumCPU", "FileContent--proc-sys-net-bridge-bridge-nf-call-iptables"}

// lab is one cluster being worked on: its settings, and what is made while it is brought up.
type lab struct {
	settings
	builder builder

	preload    map[string]string // component to image name, of the version it starts with
	webArchive string            // image of the workloads
	cgroupV1   bool              // of the machine

	token          string
	certificateKey string
	caCertHash     string
}

func newLab(s settings) *lab { return &lab{settings: s, builder: builder{cache: s.Cache}} }

// page is what the templates in files/cluster see.
type page struct {
	shape
	Host             host
	From, To         string
	Artifacts, State string
	PauseImage       string
	CgroupV1         bool
	PodCIDR          string
	Token            string
	CertificateKey   string
	CACertHash       string
	IgnoredPreflight []string
}

// page returns the values for a file of h; h may be empty where the file belongs to no host.
func (l *lab) page(h host) page {
	return page{
		shape: l.Shape, Host: h, From: l.From.Kubernetes, To: l.To.Kubernetes,
		Artifacts: l.builder.artifactsDir(), State: l.State,
		PauseImage: l.preload["pause"], CgroupV1: l.cgroupV1,
		Token: l.token, CertificateKey: l.certificateKey, CACertHash: l.caCertHash,
		IgnoredPreflight: ignoredPreflight,
	}
}

var templates = template.Must(template.New("").Funcs(template.FuncMap{"join": strings.Join}).ParseFS(files, "files/cluster/*"))

// render fills the template files/cluster/<name> with p.
func render(name string, p page) ([]byte, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, p); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// alone calls do while no other lab command works on the same shape.
func (l *lab) alone(ctx context.Context, do func() error) error {
	unlock, err := l.Cache.lock(ctx, l.Shape.Name+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}

// artifacts is the folder of r's binaries and images.
func (l *lab) artifacts(r release) string {
	return filepath.Join(l.builder.artifactsDir(), r.Kubernetes, platform)
}

// log is the path of one of the lab's log files.
func (l *lab) log(name string) string { return filepath.Join(l.State, "logs", name+".log") }

// statePath is the path of a file in the state folder.
func (l *lab) statePath(name string) string { return filepath.Join(l.State, name) }
