package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShapesAreConsistent(t *testing.T) {
	addresses := map[string]string{}
	for _, s := range shapes {
		subnet := netip.MustParsePrefix(s.Subnet)
		endpoint := false
		for _, h := range s.Hosts {
			if h.shape != s.Name {
				t.Errorf("%s of %s says it is of %q", h.Name, s.Name, h.shape)
			}
			if !subnet.Contains(netip.MustParseAddr(h.Address)) {
				t.Errorf("%s of %s is at %s, outside of %s", h.Name, s.Name, h.Address, s.Subnet)
			}
			if other, taken := addresses[h.Address]; taken {
				t.Errorf("%s and %s have one address", h.container(), other)
			}
			addresses[h.Address] = h.container()
			if (h.NodeName == "") != (h.Role == loadBalancer) {
				t.Errorf("%s of %s is a %s with the node name %q", h.Name, s.Name, h.Role, h.NodeName)
			}
			endpoint = endpoint || h.Address == s.Endpoint
		}
		if !endpoint {
			t.Errorf("no host of %s is at its endpoint %s", s.Name, s.Endpoint)
		}
		if len(s.ControlPlanes())+len(s.with(worker)) != len(s.Nodes()) {
			t.Errorf("%s has nodes that are neither control plane nor worker", s.Name)
		}
	}
}

func TestSomeNodeIsNotCalledAsItsHost(t *testing.T) {
	for _, s := range shapes {
		for _, role := range []string{controlPlane, worker} {
			differs := false
			for _, h := range s.with(role) {
				differs = differs || h.NodeName != h.Hostname
			}
			if !differs {
				t.Errorf("every %s of %s has its hostname as its node name, so nothing would notice the two mixed up", role, s.Name)
			}
		}
	}
}

func TestRoutesLeadToTheOthers(t *testing.T) {
	small, err := findShape("small")
	if err != nil {
		t.Fatal(err)
	}
	ranges := map[string]string{"cp-1": "10.244.0.0/24", "node-w1": "10.244.1.0/24"}
	got := string(routes(small.Hosts[0], small.Nodes(), ranges))
	if diff := cmp.Diff("10.244.1.0/24 via 10.77.0.21\n", got); diff != "" {
		t.Errorf("routes of cp-1 (-want +got):\n%s", diff)
	}
}

func TestReadSettings(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want string // state, from, to; or the end of the error
	}{
		{"defaults", nil, "/home/x/.cache/kuberung-lab/lab/small v1.35.4 v1.36.3"},
		{"everything", map[string]string{"LAB": "ha", "FROM": "v1.36.1", "TO": "v1.36.3", "KUBERUNG_LAB_CACHE": "/c"}, "/c/lab/ha v1.36.1 v1.36.3"},
		{"own state", map[string]string{"KUBERUNG_LAB_STATE": "/s"}, "/s v1.35.4 v1.36.3"},
		{"no such shape", map[string]string{"LAB": "huge"}, `LAB: no lab is called "huge" (small and ha are)`},
		{"no such version", map[string]string{"TO": "v1.99.0"}, `TO: version "v1.99.0" is not in the lab's table (` + strings.Join(knownVersions(), ", ") + `)`},
	}
	t.Setenv("HOME", "/home/x")
	t.Setenv("XDG_CACHE_HOME", "")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := readSettings(func(name string) string { return test.env[name] })
			got := s.State + " " + s.From.Kubernetes + " " + s.To.Kubernetes
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
