// Package hosts runs work on machines over SSH, for operators who cannot afford surprises.
//
// A [Host] is one machine. It connects at first use, checks the host key strictly against known_hosts, and
// connects again after a lost connection. [Host.Run] and [Host.Script] run short work, as root if asked;
// [Host.RunUnit] runs work that must not be cut, as a transient systemd unit that outlives the connection and this
// process; [Host.ReadFile], [Host.WriteFile] and [Host.Upload] move files; [Host.DialContext] and [Host.Relay] reach
// ports of the host; [Host.Facts] reads what there is to know of it in one round trip. A [Network] is what the hosts
// of one run share: jump hosts, unlocked keys, secrets, limits.
//
// Every call takes a context and has a limit of its own. A call that ends early ends the remote process as
// well, detached units excepted. Files appear whole under their final name or not at all. A unit is never
// started twice: it is found by name, followed, and its result is handed out until somebody has read it.
//
// The package keeps no state outside the host but known_hosts, and that only if asked to. It never prints. It asks for
// secrets by the function it is given, and by no other way. It knows nothing of Kubernetes.
package hosts
