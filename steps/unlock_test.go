package steps

import (
	"errors"
	"strings"
	"testing"
)

// Unlock removes what one run has, on the cluster and on its hosts, and nothing of another.
func TestUnlock(t *testing.T) {
	s, l := newStand(t), &leaseServer{}
	b := l.onStand(t, s, "bert", 2)
	if err := b.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.end(t)
	if err := b.takeHost(t.Context(), b.s.host("w-1")); err != nil {
		t.Fatal(err)
	}
	a := l.onStand(t, s, "anna", 1)
	owners := a.s.Locks(t.Context(), a.gone).Owners()
	if len(owners) != 1 || owners[0].Name != "bert@laptop" || len(owners[0].Held) != 2 || owners[0].Expired() || owners[0].Hosts() != "w-1" {
		t.Fatalf("owners are %+v", owners)
	}
	if err := a.s.Unlock(t.Context(), owners[0]); err != nil {
		t.Fatal(err)
	}
	if l.holder() != "" || s.on(lockOnHost) != "" {
		t.Errorf("left are %q and %q", l.holder(), s.on(lockOnHost))
	}
	if err := a.s.Unlock(t.Context(), owners[0]); err != nil {
		t.Errorf("once more: %v", err)
	}
	l.set(holder("carl", 3), 0)
	if err := a.s.Unlock(t.Context(), owners[0]); !errors.As(err, new(*HeldError)) || !strings.HasPrefix(err.Error(), "meanwhile the lock is another's, and stays: carl@laptop") {
		t.Errorf("error is %v", err)
	}
	if l.holder() != "carl@laptop/run-of-carl" {
		t.Errorf("carl's lock became %q", l.holder())
	}
}

// Who has a lock on a host only, because that of the cluster has expired and is another's, is an owner as well.
func TestOwners(t *testing.T) {
	cluster, host := Held{Holder: holder("anna", 1), Term: lockTerm}, Held{Holder: holder("bert", 2), Host: "w-1", Age: hostTerm + 1, Term: hostTerm}
	owners := Beside{Lock: &cluster, HostLocks: []Held{host}}.Owners()
	if len(owners) != 2 || owners[0].Name != "anna@laptop" || owners[0].Expired() || owners[1].Name != "bert@laptop" || !owners[1].Expired() {
		t.Errorf("owners are %+v", owners)
	}
}
