// Package sim is a kubeadm cluster in one process: hosts behind SSH servers, API servers, etcd members, kubelets and the
// controllers that kuberung waits for. What kuberung does to it goes through its own SSH, Kubernetes and etcd clients;
// nothing of kuberung is replaced but the network below SSH.
//
// A [World] is the cluster. An [Operator] is one person's machine that is connected to it; killing it takes the
// connections away, and leaves the hosts to finish what they began. Everything happens in the time of the caller: in a
// bubble of testing/synctest an upgrade takes milliseconds, outside of one as long as its waits are.
//
// Every change of the cluster is held against the invariants of the design, each of which has a name; what broke is in
// World.Broken. A script that no host here knows is such a break as well: a host that does nothing would prove nothing.
//
// It is no emulation: a host knows the scripts that kuberung sends and what they bring about, and runs no shell.
package sim
