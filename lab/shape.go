package main

import "fmt"

// shape is a kind of lab: which hosts it has and where they are. Shapes share nothing, so both can run at once.
type shape struct {
	Name      string
	Subnet    string // of the Docker network
	Gateway   string // the machine itself in that network
	Endpoint  string // address that the cluster calls its control plane's
	Untainted bool   // control planes take workloads, or nothing could be drained
	Hosts     []host
}

// host is one container that plays a machine.
type host struct {
	Name     string // in the cluster file, and what people call it
	Hostname string // what the machine itself says
	NodeName string // what Kubernetes calls it; empty on a host that is no node
	Address  string
	Role     string // control-plane, worker, load-balancer or plain
	shape    string
}

// shapes are the labs there are. Some hosts' names differ on purpose: nothing may take a node's name from its hostname.
var shapes = []shape{
	{
		Name: "small", Subnet: "10.77.0.0/24", Gateway: "10.77.0.1", Endpoint: "10.77.0.11", Untainted: true,
		Hosts: []host{
			{Name: "cp-1", Hostname: "cp-1.lab.test", NodeName: "cp-1", Address: "10.77.0.11", Role: controlPlane, shape: "small"},
			{Name: "worker-1", Hostname: "worker-1", NodeName: "node-w1", Address: "10.77.0.21", Role: worker, shape: "small"},
		},
	},
	{
		Name: "ha", Subnet: "10.78.0.0/24", Gateway: "10.78.0.1", Endpoint: "10.78.0.10",
		Hosts: []host{
			{Name: "lb", Hostname: "lb", Address: "10.78.0.10", Role: loadBalancer, shape: "ha"},
			{Name: "cp-1", Hostname: "cp-1.lab.test", NodeName: "cp-1", Address: "10.78.0.11", Role: controlPlane, shape: "ha"},
			{Name: "cp-2", Hostname: "cp-2.lab.test", NodeName: "cp-2", Address: "10.78.0.12", Role: controlPlane, shape: "ha"},
			{Name: "cp-3", Hostname: "cp-3", NodeName: "cp-3", Address: "10.78.0.13", Role: controlPlane, shape: "ha"},
			{Name: "worker-1", Hostname: "worker-1", NodeName: "node-w1", Address: "10.78.0.21", Role: worker, shape: "ha"},
			{Name: "worker-2", Hostname: "worker-2", NodeName: "worker-2", Address: "10.78.0.22", Role: worker, shape: "ha"},
		},
	},
}

// Roles of hosts; the first two as the cluster file spells them.
const (
	controlPlane = "control-plane"
	worker       = "worker"
	loadBalancer = "load-balancer"
	plain        = "plain" // no part of a cluster
)

// findShape returns the shape called name.
func findShape(name string) (shape, error) {
	for _, s := range shapes {
		if s.Name == name {
			return s, nil
		}
	}
	return shape{}, fmt.Errorf("no lab is called %q (small and ha are)", name)
}

// with returns the hosts that have one of roles, in order.
func (s shape) with(roles ...string) []host {
	var found []host
	for _, h := range s.Hosts {
		for _, role := range roles {
			if h.Role == role {
				found = append(found, h)
			}
		}
	}
	return found
}

// ControlPlanes returns the hosts that run the API server.
func (s shape) ControlPlanes() []host { return s.with(controlPlane) }

// Nodes returns the hosts that are nodes of the cluster.
func (s shape) Nodes() []host { return s.with(controlPlane, worker) }

// ControlPlane tells whether h runs the API server.
func (h host) ControlPlane() bool { return h.Role == controlPlane }

// container is the name of h's container; volume that of the volume below its /var.
func (h host) container() string { return "kuberung-" + h.shape + "-" + h.Name }
func (h host) volume() string    { return h.container() + "-var" }

// network is the name of the shape's Docker network.
func (s shape) network() string { return "kuberung-" + s.Name }
