package steps

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kuberung/kuberung/hosts"
	"github.com/kuberung/kuberung/internal/config"
)

// kubeadmStand is a host, the session to it and the facts of its cluster.
func kubeadmStand(t *testing.T, role string) (*stand, *Session, Facts, string) {
	t.Helper()
	s := newStand(t)
	session := s.open(role)
	f := seen(session.Cluster, old)
	name := session.Cluster.Hosts[0].Name
	f.host(name, func(h *Host) { h.Binaries["kubeadm"] = Binary{Path: s.bin + "/kubeadm", Version: target} })
	return s, session, f, name
}

func TestRunKubeadm(t *testing.T) {
	for _, tt := range []struct{ role, unit, command string }{
		{config.ControlPlane, "kubeadm-apply-v1.36.3", "kubeadm upgrade apply --yes"},
		{config.Worker, "kubeadm-node-v1.36.3", "kubeadm upgrade node"},
	} {
		t.Run(tt.unit, func(t *testing.T) {
			s, session, f, name := kubeadmStand(t, tt.role)
			session.Cluster.Kubeadm.IgnorePreflightErrors = []string{"Swap"}
			s.note("kubeadm-says", "OS: Linux\n\n\x1b[32m[upgrade] done\x1b[0m\n")
			var said []string
			apply := tt.role == config.ControlPlane
			err := session.runKubeadm(t.Context(), f, name, apply, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"systemd-run kuberung-" + tt.unit + ".service", tt.command + " --config /var/lib/kuberung/" + tt.unit + ".yaml"}
			if d := cmp.Diff(want, s.ran()); d != "" {
				t.Errorf("ran (-want +got):\n%s", d)
			}
			file, err := kubeadmFile(session.Cluster.Kubeadm, target, apply, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(file), s.noted("config")); d != "" {
				t.Errorf("configuration (-want +got):\n%s", d)
			}
			if mode := strings.TrimSpace(s.noted("config-mode")); mode != "600" {
				t.Errorf("the configuration has mode %s", mode)
			}
			if d := cmp.Diff([]string{"[upgrade] done"}, said); d != "" {
				t.Errorf("said (-want +got):\n%s", d)
			}
			record, err := session.host(name).UnitRecord(t.Context(), tt.unit)
			if err != nil || record.State != hosts.Exited || record.Code != 0 {
				t.Errorf("the record says %+v, %v", record, err)
			}
		})
	}
}

// What the target's kubeadm will use must be what was staged: anything else would be pulled midway.
func TestCheckImages(t *testing.T) {
	s, session, f, name := kubeadmStand(t, config.ControlPlane)
	list := func(etcd, proxy, dns string) {
		s.program("kubeadm", fmt.Sprintf(`[ "$*" = "config images list --kubernetes-version v1.36.3" ] && printf '%%s\n' \
registry.k8s.io/kube-apiserver:v1.36.3 registry.k8s.io/etcd:%s registry.k8s.io/kube-proxy:%s registry.k8s.io/coredns/coredns:%s`, etcd, proxy, dns))
	}
	tests := []struct {
		name             string
		etcd, proxy, dns string
		change           func(*ClusterFacts)
		want             string
	}{
		{"as staged", "3.6.8-0", target, "v1.14.0", func(*ClusterFacts) {}, ""},
		{"another etcd", "3.6.9-0", target, "v1.14.0", func(*ClusterFacts) {},
			`kubeadm v1.36.3 uses etcd 3.6.9-0, but the artifacts have "3.6.8-0"; nothing was changed on cp-1 but kubeadm itself: correct /srv/files and run again`},
		{"another etcd, but one is pinned", "3.6.9-0", target, "v1.14.0", func(f *ClusterFacts) { f.EtcdTag = "3.6.7-0" }, ""},
		{"another CoreDNS", "3.6.8-0", target, "v1.14.9", func(*ClusterFacts) {},
			`kubeadm v1.36.3 uses coredns v1.14.9, but the artifacts have "v1.14.0"; nothing was changed on cp-1 but kubeadm itself: correct /srv/files and run again`},
		{"another CoreDNS, but there is none", "3.6.8-0", target, "v1.14.9", func(f *ClusterFacts) { f.CoreDNSImage = "" }, ""},
		{"another CoreDNS, but one is pinned", "3.6.8-0", target, "v1.14.9", func(f *ClusterFacts) { f.DNSTag = "v1.13.0" }, ""},
		{"another kube-proxy, but there is none", "3.6.8-0", "v1.36.9", "v1.14.0", func(f *ClusterFacts) { f.ProxyImage = "" }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list(tt.etcd, tt.proxy, tt.dns)
			now := f
			tt.change(&now.Cluster)
			err := session.checkImages(t.Context(), now, name)
			if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
	s.program("kubeadm", "echo unknown flag >&2; exit 1")
	if err := session.checkImages(t.Context(), f, name); err == nil || !strings.HasPrefix(err.Error(), "kubeadm config images list: ") {
		t.Errorf("error is %v", err)
	}
}

// A control plane whose kubeadm would use what was not staged is left as it is.
func TestImagesAreCheckedBeforeKubeadmRuns(t *testing.T) {
	for _, apply := range []bool{true, false} {
		s, session, f, name := kubeadmStand(t, config.ControlPlane)
		session.Cluster.Timeouts.Gate = time.Millisecond // nothing is waited for here
		session.client = fake.NewClientset(kubeadmConfigMap("kubernetesVersion: v1.36.3\n"))
		s.program("kubeadm", `echo "kubeadm $*" >>"$FAKE/log"; echo registry.k8s.io/etcd:3.6.9-0`)
		err := UpgradeControlPlane(session, name, needsControlPlane, apply).Run(t.Context(), f, quiet)
		if err == nil || !strings.HasPrefix(err.Error(), "kubeadm v1.36.3 uses etcd 3.6.9-0, but ") {
			t.Errorf("error is %v", err)
		}
		if d := cmp.Diff([]string{"kubeadm config images list --kubernetes-version v1.36.3"}, s.ran()); d != "" {
			t.Errorf("ran (-want +got):\n%s", d)
		}
	}
}

// What a site has removed is not brought back by a run of kubeadm.
func TestARunSkipsAbsentAddOns(t *testing.T) {
	s, session, f, name := kubeadmStand(t, config.ControlPlane)
	f.Cluster.ProxyImage = ""
	if err := session.runKubeadm(t.Context(), f, name, true, quiet); err != nil {
		t.Fatal(err)
	}
	if got, want := s.noted("config"), "  skipPhases:\n  - addon/kube-proxy\n"; !strings.Contains(got, want) || strings.Contains(got, "coredns") {
		t.Errorf("the configuration is\n%s\nwant in it\n%s", got, want)
	}
}

func TestAFailedKubeadmIsToldByItsOwnWords(t *testing.T) {
	s, session, f, name := kubeadmStand(t, config.Worker)
	s.note("kubeadm-says", "[upgrade] looking\n\x1b[31merror: \x1b[0mcouldn't upgrade\n")
	s.note("kubeadm-exit", "3")
	err := session.runKubeadm(t.Context(), f, name, false, quiet)
	want := "kubeadm upgrade node ended with exit status 3:\n[upgrade] looking\nerror: couldn't upgrade\n\n" +
		"Its whole output: /var/lib/kuberung/units/kubeadm-node-v1.36.3/output on w-1"
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
}

// A unit that could not even be started says nothing of kubeadm.
func TestAUnitThatDoesNotStartIsNoFailedKubeadm(t *testing.T) {
	s, session, f, name := kubeadmStand(t, config.Worker)
	s.program("systemd-run", "echo Failed to connect to bus >&2; exit 1")
	err := session.runKubeadm(t.Context(), f, name, false, quiet)
	if err == nil || strings.Contains(err.Error(), "kubeadm upgrade node ended") || !strings.Contains(err.Error(), "Failed to connect to bus") {
		t.Errorf("error is %v, want that of systemd-run", err)
	}
}

// The result of an earlier run that nobody has read is not taken for that of this one, if it was there
// when the facts were read that ask for another; nor is a failure that was read.
func TestAnOldResultOfKubeadmIsNotThisOne(t *testing.T) {
	for _, read := range []bool{false, true} {
		for _, code := range []int{0, 1} {
			t.Run(fmt.Sprintf("read %v, exit status %d", read, code), func(t *testing.T) {
				s, session, f, name := kubeadmStand(t, config.Worker)
				s.note("kubeadm-exit", fmt.Sprint(code))
				unit := hosts.Unit{Name: nodeUnit(target), Argv: []string{s.bin + "/kubeadm", s.bin + "/kubeadm"}}
				_, _, err := session.host(name).RunUnit(t.Context(), unit, nil)
				if exit, ok := errors.AsType[*hosts.ExitError](err); code > 0 && (!ok || exit.Code != code) || code == 0 && err != nil {
					t.Fatal(err)
				}
				if !read {
					s.remove("/var/lib/kuberung/units/" + unit.Name + "/claimed")
				}
				record, err := session.host(name).UnitRecord(t.Context(), unit.Name)
				if err != nil || record.Claimed != read {
					t.Fatalf("the record says %+v, %v", record, err)
				}
				f.host(name, func(h *Host) { h.Kubeadm[unit.Name] = record })
				s.note("kubeadm-exit", "0")
				s.ran()
				var said []string
				err = session.runKubeadm(t.Context(), f, name, false, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
				if err != nil {
					t.Fatal(err)
				}
				if ran := s.ran(); len(ran) != 2 || !strings.HasPrefix(ran[1], "kubeadm upgrade node") {
					t.Errorf("ran %q, want kubeadm once more", ran)
				}
				var want []string
				if !read {
					want = []string{fmt.Sprintf("an earlier run of kubeadm-node-v1.36.3 ended with exit status %d; running it again", code)}
				}
				if d := cmp.Diff(want, said); d != "" {
					t.Errorf("said (-want +got):\n%s", d)
				}
			})
		}
	}
}

// A run that was still going when the facts were read has ended meanwhile: its result is this step's.
func TestARunThatWasGoingIsAdopted(t *testing.T) {
	s, session, f, name := kubeadmStand(t, config.Worker)
	unit := hosts.Unit{Name: nodeUnit(target), Argv: []string{s.bin + "/kubeadm", s.bin + "/kubeadm"}}
	if _, _, err := session.host(name).RunUnit(t.Context(), unit, nil); err != nil {
		t.Fatal(err)
	}
	s.remove("/var/lib/kuberung/units/" + unit.Name + "/claimed")
	f.host(name, func(h *Host) { h.Kubeadm[unit.Name] = hosts.Record{State: hosts.Running} })
	s.ran()
	if err := session.runKubeadm(t.Context(), f, name, false, quiet); err != nil {
		t.Fatal(err)
	}
	if ran := s.ran(); len(ran) > 0 {
		t.Errorf("ran %q, want nothing a second time", ran)
	}
}
