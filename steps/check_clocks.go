package steps

import (
	"fmt"
	"slices"
	"time"

	"github.com/kuberung/kuberung/internal/config"
)

// systemdPresent: kubeadm runs as a unit of systemd, so that a connection that breaks does not cut it.
func systemdPresent(c *config.Cluster, f Facts) []Finding {
	var found []Finding
	for _, h := range asked(c, f) {
		if why := noSystemd(f.Hosts[h.Name].System); why != "" {
			found = append(found, block(place(h), why, "kuberung needs a host that systemd runs, with its systemd-run; move this one by hand, or install what is missing"))
		}
	}
	return found
}

// How far clocks may be apart. etcd warns of its peers' clocks above a second; far apart, certificates, Leases and
// heartbeats mean nothing.
const (
	clockWarns  = time.Second
	clockBlocks = 30 * time.Second
)

// clocksAgree compares each host's clock with the median of all, as far as each is known. With an even number of hosts
// our own clock decides between the two in the middle.
func clocksAgree(c *config.Cluster, f Facts) []Finding {
	var offsets []time.Duration
	for _, h := range asked(c, f) {
		if s := f.Hosts[h.Name].System; s.Unknown["Clock"] == "" {
			offsets = append(offsets, s.Clock.Offset)
		}
	}
	if len(offsets)%2 == 0 {
		offsets = append(offsets, 0)
	}
	slices.Sort(offsets)
	median := offsets[len(offsets)/2]
	const fix = "let it keep time with the others (chrony, systemd-timesyncd, ntpd): chronyc makestep, or timedatectl set-ntp true"
	var found []Finding
	if median.Abs() > clockBlocks {
		found = append(found, warn("this machine", fmt.Sprintf("its clock and those of the hosts are %s apart", round(median.Abs())), fix))
	}
	for _, h := range asked(c, f) {
		s := f.Hosts[h.Name].System
		if why := s.Unknown["Clock"]; why != "" {
			found = append(found, block(place(h), "its clock could not be read: "+why, "make date +%s answer on it"))
			continue
		}
		off := s.Clock.Offset - median
		if beyond := off.Abs() - s.Clock.Uncertainty; beyond > clockWarns {
			text := fmt.Sprintf("its clock is %s the other hosts' (±%s)", aheadOf(off), round(s.Clock.Uncertainty))
			found = append(found, Finding{Where: place(h), Block: beyond > clockBlocks, Text: text, Fix: fix})
		}
	}
	return found
}

func aheadOf(off time.Duration) string {
	if off < 0 {
		return round(-off).String() + " behind"
	}
	return round(off).String() + " ahead of"
}

// round leaves what people want to read.
func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(10 * time.Millisecond)
}
