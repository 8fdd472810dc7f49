package main

import (
	"context"
	"errors"
	"time"
)

// hostAccess prints everything about a host that decides who gets in and what they can do there.
const hostAccess = `set -eu
cd /etc
sha256sum passwd shadow group gshadow sudoers sudoers.d/* ssh/sshd_config ssh/sshd_config.d/*
ls /home ssh sudoers.d systemd/system systemd/system/multi-user.target.wants /usr/lib/lab
grep -E ' (/tmp|/var/tmp|/dev/shm) ' /proc/mounts
ip -6 address show scope global`

// access reads what the case changes on the nodes, by host.
func (b *bed) access(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	for _, h := range b.nodes {
		out, err := b.sh(ctx, h, hostAccess)
		if err != nil {
			return nil, err
		}
		found[h.Name] = out
	}
	return found, nil
}

// unmake removes the added hosts and gives the nodes back as they were before.
func (s *sshSite) unmake(ctx context.Context, before map[string]string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("the site was not undone within 3 minutes"))
	defer cancel()
	errs := []error{s.removeBeside(ctx, s.added()...)}
	for _, h := range s.nodes {
		if h.has(ctx, "/etc/ssh/strict") {
			errs = append(errs, s.script(ctx, h, "undo.sh"))
		}
	}
	after, err := s.access(ctx)
	if err == nil {
		err = unchanged(before, after)
	}
	return errors.Join(append(errs, err)...)
}
