package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// object holds those fields of nodes, pods and the controllers of pods that tell whether they are well.
type object struct {
	Kind     string
	Metadata struct {
		Namespace, Name string
		Generation      int64
		Labels          map[string]string
	}
	Spec struct {
		PodCIDR       string
		NodeName      string
		Replicas      int
		Unschedulable bool
	}
	Status struct {
		Phase              string
		ObservedGeneration int64
		Conditions         []condition
		ContainerStatuses  []struct {
			State struct{ Running struct{ StartedAt time.Time } }
		}
		NodeInfo struct{ KubeletVersion string }

		ReadyReplicas, UpdatedReplicas                              int // Deployment, StatefulSet
		DesiredNumberScheduled, NumberReady, UpdatedNumberScheduled int // DaemonSet
	}
}

type condition struct {
	Type, Status, Reason string
	LastHeartbeatTime    time.Time // a node's only
}

// kubectl runs the starting version's kubectl on the machine, against the lab.
func (l *lab) kubectl(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	argv := append([]string{filepath.Join(l.artifacts(l.From), "kubectl"), "--kubeconfig", l.statePath("kubeconfig"), "--request-timeout=10s"}, args...)
	out, err := command{Argv: argv, Stdin: bytes.NewReader(stdin), Limit: time.Minute}.run(ctx)
	return []byte(out), err
}

// list returns the objects of kinds in all namespaces.
func (l *lab) list(ctx context.Context, kinds string) ([]object, error) {
	out, err := l.kubectl(ctx, nil, "get", kinds, "--all-namespaces", "--output=json")
	if err != nil {
		return nil, err
	}
	var found struct{ Items []object }
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("read %s: %w", kinds, err)
	}
	return found.Items, nil
}

// podRanges returns the pod addresses of each node, by node name.
func (l *lab) podRanges(ctx context.Context) (map[string]string, error) {
	nodes, err := l.list(ctx, "nodes")
	ranges := map[string]string{}
	for _, n := range nodes {
		ranges[n.Metadata.Name] = n.Spec.PodCIDR
	}
	return ranges, err
}

// healthy returns nil if every host runs, every node is Ready and every workload complete; else what is not. What the API
// says of a node counts only if it was said since the node's host booted: right after a boot all looks as it did before.
func (l *lab) healthy(ctx context.Context) error {
	if _, err := os.Stat(l.statePath("cluster.yaml")); err != nil {
		return err // bring-up has not come to its end
	}
	return l.complete(ctx)
}

// complete is healthy without a finished bring-up.
func (l *lab) complete(ctx context.Context) error {
	booted := map[string]time.Time{}
	for _, h := range l.Shape.Hosts {
		at, err := h.booted(ctx)
		if err != nil {
			return err
		}
		booted[h.NodeName] = at
	}
	objects, err := l.list(ctx, "nodes,deployments,statefulsets,daemonsets,pods")
	if err != nil {
		return err
	}
	nodes := 0
	var problems []error
	for _, o := range objects {
		since := booted[o.Spec.NodeName]
		if o.Kind == "Node" {
			nodes++
			since = booted[o.Metadata.Name]
		}
		if problem := o.problem(since); problem != "" {
			problems = append(problems, fmt.Errorf("%s %s: %s", o.Kind, o.Metadata.Name, problem))
		}
	}
	if want := len(l.Shape.Nodes()); nodes != want {
		problems = append(problems, fmt.Errorf("%d of %d nodes are there", nodes, want))
	}
	return errors.Join(problems...)
}

// problem says what o lacks to be well; empty if nothing. booted is when the host of a node or a pod did.
func (o object) problem(booted time.Time) string {
	s := o.Status
	switch o.Kind {
	case "Node":
		for _, c := range s.Conditions {
			if c.Type == "Ready" && c.LastHeartbeatTime.Before(booted) {
				return "not heard of since it booted"
			}
		}
		return o.notReady()
	case "Pod":
		if s.Phase == "Succeeded" {
			return ""
		}
		for _, c := range s.ContainerStatuses {
			if c.State.Running.StartedAt.Before(booted) {
				return "not started since its host booted"
			}
		}
		return o.notReady()
	case "Deployment", "StatefulSet":
		if s.ObservedGeneration < o.Metadata.Generation || s.ReadyReplicas != o.Spec.Replicas || s.UpdatedReplicas != o.Spec.Replicas {
			return fmt.Sprintf("%d of %d ready, %d current", s.ReadyReplicas, o.Spec.Replicas, s.UpdatedReplicas)
		}
	case "DaemonSet":
		if s.ObservedGeneration < o.Metadata.Generation || s.DesiredNumberScheduled == 0 ||
			s.NumberReady != s.DesiredNumberScheduled || s.UpdatedNumberScheduled != s.DesiredNumberScheduled {
			return fmt.Sprintf("%d of %d ready, %d current", s.NumberReady, s.DesiredNumberScheduled, s.UpdatedNumberScheduled)
		}
	}
	return ""
}

// notReady says why o's Ready condition does not hold.
func (o object) notReady() string {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return ""
		} else if c.Type == "Ready" {
			return "not Ready: " + c.Reason
		}
	}
	return "has no Ready condition"
}
