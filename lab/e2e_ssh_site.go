package main

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed ssh
var sshFiles embed.FS

// siteVariable names the description of the site to the tests of package hosts.
const siteVariable = "KUBERUNG_LAB_SITE"

// The hosts that the case ssh adds to the small lab: two bastions, of which each lets in only the hop before, and a host
// with every kind of user.
var (
	bastions = []host{
		{Name: "bastion-1", Hostname: "bastion-1", Address: "10.77.0.31", Role: plain, shape: "small"},
		{Name: "bastion-2", Hostname: "bastion-2", Address: "10.77.0.32", Role: plain, shape: "small"},
	}
	box = host{Name: "box", Hostname: "box.lab.test", Address: "10.77.0.33", Role: plain, shape: "small"}
)

// boxPorts are where box has sshds.
var boxPorts = []int{22, 2201, 2202, 2203}

// address6 is the host's IPv6 address, which it has in this case only.
func (h host) address6() string {
	return "fd00:77::" + h.Address[strings.LastIndexByte(h.Address, '.')+1:]
}

// sshSite is the lab with its additions, as strict and odd as real sites are.
type sshSite struct {
	*bed
	dir       string            // keys and passwords, known hosts, cluster files
	passwords map[string]string // by user
}

// siteHost describes a host to the tests of package hosts.
type siteHost struct {
	Address, Address6 string
	Container         string // through which tests look at a host without SSH
	Key               string // its host key, as known_hosts has it
}

// passphrase is that of the locked key.
const passphrase = "a passphrase, of the lab"

func newSSHSite(b *bed) *sshSite {
	s := &sshSite{bed: b, dir: filepath.Join(b.dir, "site"), passwords: map[string]string{}}
	for _, user := range []string{"pass", "ptypass", "nosudo", "deploy"} {
		s.passwords[user] = rand.Text() + ` "'$é` // what breaks where quoting is wrong
	}
	return s
}

func (s *sshSite) path(name string) string { return filepath.Join(s.dir, name) }

// added are the hosts beside those of the shape.
func (s *sshSite) added() []host { return append([]host{box}, bastions...) }

// make starts the added hosts, makes all hosts strict and writes down what the tests need to know.
func (s *sshSite) make(ctx context.Context) error {
	began := time.Now()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := s.startBeside(ctx, s.added()...); err != nil {
		return err
	}
	if err := s.script(ctx, box, "box.sh", box.Address, passphrase); err != nil {
		return err
	}
	if _, err := docker(ctx, "cp", box.container()+":/opt/keys/.", s.path("keys")); err != nil {
		return err
	}
	if err := s.strictHosts(ctx); err != nil {
		return err
	}
	s.measured.add("site made", time.Since(began))
	return s.describe(ctx)
}

// strictHosts makes bastions of the bastions and closes the nodes to everybody but the second of them.
func (s *sshSite) strictHosts(ctx context.Context) error {
	first, second := bastions[0], bastions[1]
	onward := []string{}
	for _, h := range s.nodes {
		onward = append(onward, h.Address+":22", "["+h.address6()+"]:22")
	}
	err := s.script(ctx, first, "bastion.sh", first.address6(), s.lab.Shape.Gateway, second.Address+":22")
	if err != nil {
		return err
	}
	if err := s.script(ctx, second, "bastion.sh", append([]string{second.address6(), first.Address}, onward...)...); err != nil {
		return err
	}
	for _, h := range s.nodes {
		if err := s.script(ctx, h, "node.sh", h.address6(), second.Address, second.address6(), h.Role); err != nil {
			return err
		}
	}
	return nil
}

// script runs one of the scripts in ssh on h as root, with what all of them read: keys that are let in, and passwords.
func (s *sshSite) script(ctx context.Context, h host, name string, args ...string) error {
	var passwords strings.Builder
	for user, password := range s.passwords {
		if (user == "deploy") == (h.Role != plain) {
			fmt.Fprintf(&passwords, "%s:%s\n", user, password)
		}
	}
	if err := h.write(ctx, "/run/lab/passwords", []byte(passwords.String())); err != nil {
		return err
	}
	if let, err := os.ReadFile(s.path("keys/plain.pub")); err == nil { // box makes it
		if err := h.write(ctx, "/run/lab/authorized_keys", let); err != nil {
			return err
		}
	}
	var text strings.Builder
	for _, part := range []string{"host.sh", name} {
		piece, err := sshFiles.ReadFile("ssh/" + part)
		if err != nil {
			return err
		}
		text.Write(piece)
	}
	argv := append([]string{"sh", "-s", "--"}, args...)
	return h.execLogged(ctx, filepath.Join(s.dir, "setup.log"), 2*time.Minute, strings.NewReader(text.String()), argv...)
}

// describe writes known_hosts files, the password of the nodes' user, and site.json.
func (s *sshSite) describe(ctx context.Context) error {
	var nodes, all strings.Builder
	described := map[string]siteHost{}
	for _, h := range append(s.added(), s.nodes...) {
		key, err := h.exec(ctx, "cut", "-d", " ", "-f", "1,2", "/etc/ssh/ssh_host_ed25519_key.pub")
		if err != nil {
			return err
		}
		key = strings.TrimSpace(key)
		described[h.Name] = siteHost{Address: h.Address, Address6: h.address6(), Container: h.container(), Key: key}
		fmt.Fprintf(&all, "%s,%s %s\n", h.Address, h.address6(), key)
		if h.Role != plain {
			fmt.Fprintf(&nodes, "%s,%s %s\n", h.Address, h.address6(), key)
		}
	}
	for _, port := range boxPorts[1:] {
		fmt.Fprintf(&all, "[%s]:%d %s\n", box.Address, port, described[box.Name].Key)
	}
	text, err := json.MarshalIndent(map[string]any{
		"Keys": s.path("keys"), "KnownHosts": s.path("known_hosts"),
		"Passphrase": passphrase, "Passwords": s.passwords, "Hosts": described,
	}, "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(s.path("known_hosts"), []byte(all.String()), 0o644),
		os.WriteFile(s.path("known_hosts-without-bastions"), []byte(nodes.String()), 0o644),
		os.WriteFile(s.path("sudo-password"), []byte(s.passwords["deploy"]+"\n"), 0o600),
		os.WriteFile(s.path("site.json"), text, 0o600))
}

// clusterFile writes a cluster file by which the tool goes the hardest way, with edit applied, and returns its path.
func (s *sshSite) clusterFile(name string, edit func(file string) string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.lab.State, "cluster.yaml"))
	if err != nil {
		return "", err
	}
	way := []string{}
	for _, h := range bastions {
		way = append(way, "jump@"+h.Address)
	}
	file := string(text)
	for _, change := range []func(string) string{
		with("user: ops", "user: deploy"),
		with(filepath.Join(s.lab.State, "id_ed25519"), s.path("keys/plain")),
		with(filepath.Join(s.lab.State, "known_hosts"), s.path("known_hosts")),
		with("  sudo: true\n", fmt.Sprintf("  sudo: true\n  sudoPasswordFile: %s\n  jump: [%s]\n  tunnel: relay\n", s.path("sudo-password"), strings.Join(way, ", "))),
		with("address: "+s.nodes[len(s.nodes)-1].Address, fmt.Sprintf("address: %q", s.nodes[len(s.nodes)-1].address6())),
	} {
		before := file
		if file = change(file); file == before {
			return "", errors.New("the cluster file is not written as expected here")
		}
	}
	path := s.path(name + ".yaml")
	return path, os.WriteFile(path, []byte(edit(file)), 0o600)
}
