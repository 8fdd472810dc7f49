package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hostTestsLimit is for all tests of package hosts against the site, its compilation included.
const hostTestsLimit = 20 * time.Minute

// overSSH proves the SSH layer against OpenSSH, sudo and systemd as hardened and odd as those of real sites, and then that
// the whole tool works through the hardest way there is.
func overSSH(ctx context.Context, b *bed) (err error) {
	before, err := b.access(ctx)
	if err != nil {
		return err
	}
	site := newSSHSite(b)
	if err := site.make(ctx); err != nil {
		return errors.Join(err, site.unmake(ctx, before))
	}
	// Undone also when ctx is over: the nodes would let nobody in any more.
	defer func() { err = errors.Join(err, site.unmake(context.WithoutCancel(ctx), before)) }()
	if err := site.testHosts(ctx); err != nil {
		return err
	}
	if err := site.refusals(ctx); err != nil {
		return err
	}
	b.clusterFile, err = site.clusterFile("hardest-way", keep)
	if err != nil {
		return err
	}
	return errors.Join(b.checks(ctx), climb(ctx, b), site.passwordHidden(ctx))
}

// passwordHidden checks that sudo's password stands nowhere that a run writes to: neither in what the tool printed and
// recorded, nor in the journals of the nodes and in what it keeps there.
func (s *sshSite) passwordHidden(ctx context.Context) error {
	secret, _, _ := strings.Cut(s.passwords["deploy"], " ")
	var errs []error
	for _, root := range []string{s.data, s.bed.dir} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if path == s.dir {
					return fs.SkipDir // it was given there
				}
				return nil
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), secret) {
				errs = append(errs, fmt.Errorf("%s holds the password of sudo", path))
			}
			return err
		})
		errs = append(errs, err)
	}
	for _, h := range s.nodes {
		out, err := s.sh(ctx, h, "journalctl --no-pager --quiet; find /var/lib/kuberung -type f -size -1M -exec cat {} +")
		switch {
		case err != nil:
			errs = append(errs, err)
		case !strings.Contains(out, "deploy : ") || strings.Contains(out, secret):
			errs = append(errs, fmt.Errorf("%s: journal or records hold the password of sudo, or no word of sudo at all", h.Name))
		}
	}
	return errors.Join(errs...)
}

// testHosts runs the tests of package hosts that need the site.
func (s *sshSite) testHosts(ctx context.Context) error {
	began := time.Now()
	log := filepath.Join(s.dir, "go-test")
	_, err := command{
		Argv:  []string{"go", "test", "-tags", "lab", "-run", "Lab", "-count=1", "-timeout", hostTestsLimit.String(), "-v", ownModule + "/hosts"},
		Env:   []string{siteVariable + "=" + filepath.Join(s.dir, "site.json")},
		Log:   log,
		Limit: hostTestsLimit,
	}.run(ctx)
	s.measured.add("tests of package hosts", time.Since(began))
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(failedTests(log), ", "), err)
	}
	return nil
}

// failedTests are the names of the tests that a log of `go test -v` calls failed.
func failedTests(log string) []string {
	text, err := os.ReadFile(log)
	if err != nil {
		return []string{err.Error()}
	}
	var failed []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			failed = append(failed, name)
		}
	}
	return failed
}

// refusals are what a check must say of ways that cannot work. Nothing may have changed on any host or node.
func (s *sshSite) refusals(ctx context.Context) error {
	wrong := filepath.Join(s.dir, "wrong-sudo-password")
	if err := os.WriteFile(wrong, []byte("not the password\n"), 0o600); err != nil {
		return err
	}
	before, err := s.fingerprint(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range []struct {
		name string
		edit func(file string) string
		says []string
	}{
		{"no-forwarding", with("  tunnel: relay\n", ""), []string{"cp-1", "forward", "tunnel: relay", "kubeconfig"}},
		{"wrong-password", with(s.path("sudo-password"), wrong), []string{"cp-1", "worker-1", "refuses the password of deploy", wrong}},
		{"unknown-bastion", with(s.path("known_hosts"), s.path("known_hosts-without-bastions")), []string{bastions[0].Address, "known_hosts"}},
	} {
		if err := s.refused(ctx, c.name, c.edit, c.says); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	after, err := s.fingerprint(ctx)
	if err == nil {
		err = unchanged(before, after)
	}
	return errors.Join(append(errs, err)...)
}

// refused runs a check that must say no, and name what says.
func (s *sshSite) refused(ctx context.Context, name string, edit func(string) string, says []string) error {
	file, err := s.clusterFile(name, edit)
	if err != nil {
		return err
	}
	run, err := s.runTool(ctx, readLimit, name, "check", "-f", file)
	if err != nil {
		return err
	}
	s.measured.add(name+" refused in", run.took)
	errs := []error{run.want(exitCheckNo)}
	for _, piece := range says {
		if !strings.Contains(run.said(), piece) {
			errs = append(errs, fmt.Errorf("the message does not name %q: %s", piece, run.lastWords()))
		}
	}
	return errors.Join(errs...)
}

// checks runs a check that must find nothing in the way.
func (b *bed) checks(ctx context.Context) error {
	run, err := b.runTool(ctx, readLimit, "check", "check", "-f", b.clusterFile)
	if err != nil {
		return err
	}
	b.measured.add("check", run.took)
	return run.want(0)
}

// keep is the edit that changes nothing.
func keep(file string) string { return file }
