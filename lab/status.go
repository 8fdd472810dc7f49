package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// status writes one line for each host: what Docker says of it, and what Kubernetes says of its node.
func (l *lab) status(ctx context.Context, out io.Writer) error {
	if err := engineAnswers(ctx); err != nil {
		return fmt.Errorf("lab %s is down: %w", l.Shape.Name, err)
	}
	nodes := map[string]object{}
	objects, apiErr := l.list(ctx, "nodes")
	for _, o := range objects {
		nodes[o.Metadata.Name] = o
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tADDRESS\tROLE\tCONTAINER\tNODE\tREADY\tKUBELET\tAPI SERVER")
	for _, h := range l.Shape.Hosts {
		state, err := h.state(ctx)
		if err != nil {
			return err
		}
		row := append([]string{h.Name, h.Address, h.Role, orDash(state), orDash(h.NodeName)}, l.nodeColumns(ctx, h, nodes)...)
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush()
	if apiErr != nil {
		return fmt.Errorf("the API of lab %s does not answer: %w", l.Shape.Name, apiErr)
	}
	return nil
}

// nodeColumns are the last columns of h's line: Ready, kubelet, API server.
func (l *lab) nodeColumns(ctx context.Context, h host, nodes map[string]object) []string {
	node, there := nodes[h.NodeName]
	if !there {
		return []string{"-", "-", "-"}
	}
	ready := "yes"
	if problem := node.notReady(); problem != "" {
		ready = problem
	}
	if node.Spec.Unschedulable {
		ready += ", cordoned"
	}
	api := "-"
	if h.ControlPlane() {
		out, err := h.exec(ctx, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "--server=https://"+h.Address+":6443",
			"--request-timeout=5s", "get", "--raw=/version")
		api = versionIn(out, err)
	}
	return []string{ready, node.Status.NodeInfo.KubeletVersion, api}
}

// versionIn reads the version out of what /version answers.
func versionIn(answer string, err error) string {
	if err != nil {
		return "no answer"
	}
	_, rest, _ := strings.Cut(answer, `"gitVersion": "`)
	version, _, _ := strings.Cut(rest, `"`)
	return orDash(version)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
