package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostFingerprint prints what a run could change on a host: every file below the places of kubeadm, kubelet and ours with
// mode and content, and the units with their start times.
const hostFingerprint = `set -eu
for path in /etc/kubernetes /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env /usr/bin/kube* /var/lib/kuberung; do
	[ -e "$path" ] || continue
	find "$path" -printf '%M %u %p\n' | sort
	find "$path" -type f -exec sha256sum {} + | sort -k 2
done
for unit in kubelet containerd; do
	systemctl show -p MainPID -p ExecMainStartTimestampMonotonic $unit
done
systemctl list-units --plain --no-legend --all 'kuberung*'
crictl images --quiet --no-trunc | sort`

// fingerprint reads everything that a run could change, by host and node.
func (b *bed) fingerprint(ctx context.Context) (map[string]string, error) {
	prints := map[string]string{}
	for _, h := range b.nodes {
		out, err := b.sh(ctx, h, hostFingerprint)
		if err != nil {
			return nil, err
		}
		prints["host "+h.Name] = out
	}
	nodes, err := b.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		prints["node "+n.Name] = asText([]any{n.Spec, n.Labels, n.Annotations, n.Status.NodeInfo})
	}
	return prints, nil
}

// unchanged returns an error with the lines that differ between two fingerprints.
func unchanged(before, after map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if before[name] != after[name] {
			return fmt.Errorf("%s has changed: %s", name, lineDifference(before[name], after[name]))
		}
	}
	if len(after) != len(before) {
		return fmt.Errorf("%d hosts and nodes, there were %d", len(after), len(before))
	}
	return nil
}

// lineDifference lists the lines that only one of two texts has, at most five.
func lineDifference(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	var found []string
	for _, line := range was {
		if !slices.Contains(is, line) {
			found = append(found, "-"+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			found = append(found, "+"+line)
		}
	}
	return strings.Join(found[:min(5, len(found))], " ")
}
