package main

import (
	"strings"
	"testing"
	"time"
)

// A look is written as letters: a node's name, upper case while it is out of service; a and b are control planes.
func looks(t *testing.T, all ...string) *outages {
	t.Helper()
	o := &outages{}
	at := time.Unix(1000, 0)
	for _, look := range all {
		at = at.Add(time.Second)
		if look == "" {
			continue // nothing could be seen
		}
		nodes := map[string]sight{}
		for _, c := range look {
			name := strings.ToLower(string(c))
			seen := sight{controlPlane: name < "c"}
			if name != string(c) {
				seen.out = "cordoned"
			}
			nodes[name] = seen
		}
		o.look(at, nodes)
	}
	return o
}

func TestOutages(t *testing.T) {
	for _, test := range []struct {
		name  string
		looks []string
		batch int
		want  string
	}{
		{"all in service", []string{"abcd", "abcd"}, 1, ""},
		{"one after the other", []string{"Abcd", "aBcd", "abCd", "abcD"}, 1, ""},
		{"two control planes", []string{"abcd", "ABcd", "abcd"}, 1, "2 control planes out of service at once: a cordoned, b cordoned"},
		{"a control plane and a worker", []string{"AbCd"}, 1, ""},
		{"two workers, one allowed", []string{"abCD"}, 1, "2 workers out of service at once, want at most 1: c cordoned, d cordoned"},
		{"two workers allowed", []string{"abCD"}, 2, ""},
		{"blind for a moment", []string{"abcd", "", "", "abcd"}, 1, ""},
		{"blind for long", []string{"abcd", "", "", "", "", "", "abcd"}, 1, "could not be seen for 6s"},
		{"never seen", []string{"", ""}, 1, "never seen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := looks(t, test.looks...).within(test.batch, 4*time.Second)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("within = %v, want %q", err, test.want)
			}
		})
	}
}

func TestSpells(t *testing.T) {
	var got []string
	for _, s := range looks(t, "abc", "Abc", "Abc", "abC", "", "abC", "Abc").spells() {
		got = append(got, s.node+" "+s.to.Sub(s.from).String())
	}
	// The end is the look at which the node was back; the last spell has not ended.
	if want := "a 2s, c 3s, a 0s"; strings.Join(got, ", ") != want {
		t.Errorf("spells are %v, want %s", got, want)
	}
}
