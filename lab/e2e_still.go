package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// running names everything that runs, so that a restart of any of it shows: units of the hosts with process and start
// time, containers of pods with their id and count of restarts.
func (b *bed) running(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for _, h := range b.nodes {
		for _, unit := range []string{"kubelet", "containerd"} {
			out, err := b.sh(ctx, h, "systemctl show -p MainPID -p ExecMainStartTimestampMonotonic "+unit)
			if err != nil {
				return nil, err
			}
			all[h.Name+" "+unit] = strings.Join(strings.Fields(out), " ")
		}
	}
	pods, err := b.pods(ctx, "", "")
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded {
			continue // such as kubeadm's health check, which goes away by itself
		}
		for _, c := range pod.Status.ContainerStatuses {
			all[pod.Namespace+"/"+pod.Name+" "+c.Name] = fmt.Sprintf("%s %s restarts %d", pod.UID, c.ContainerID, c.RestartCount)
		}
	}
	return all, nil
}

// sameRunning returns an error that names everything that is not running as it was.
func sameRunning(before, after map[string]string) error {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			changed = append(changed, fmt.Sprintf("%s was %s and is %q", name, before[name], after[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[name]; !there {
			changed = append(changed, name+" is new")
		}
	}
	if len(changed) > 0 {
		return fmt.Errorf("not running as before: %s", strings.Join(changed, "; "))
	}
	return nil
}
