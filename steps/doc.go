// Package steps knows what an upgrade of a kubeadm cluster is: it observes hosts and cluster into
// Facts, checks them, plans from them, and holds the steps that a plan consists of. It is the one
// place where hosts, drain, etcdbackup and engine meet.
//
// Session is the open door to a cluster; Facts is what it saw; Check and Plan are pure functions of
// the cluster file and Facts. Each step is one function in a file of its own: what it does, its
// need as a pure function of Facts, and Run.
//
// Nothing is remembered between runs. Interrupt a run anywhere, plan again, and what is left is the
// new plan. What a plan does not list is not done.
package steps
