// Package drain takes a Kubernetes node out of service and gives it back: cordon, drain, uncordon.
//
// A window is the time between Cordon and Uncordon. It is remembered on the Node itself, in WindowAnnotation, so that a
// run that died is continued by any other and a node that somebody else cordoned stays cordoned. What may leave the node
// is decided by kubectl's own drain library; Consent narrows it to the pods that the operator named. Look shows the
// decision, Node acts on it.
//
// The eviction itself is not the library's: after a refusal it looks the pod up again by name, and would evict a
// StatefulSet pod that has been recreated on another node meanwhile. Here every eviction names the UID of the pod that
// was seen on this node, and only the list of pods bound to this node says what is left.
//
// Disruption budgets are the API server's to keep. A workload without one is not darkened either: a ready pod whose
// controller has other pods, but no other ready one that stays, is held back until another is ready. So of the replicas
// that share the node the last goes only when a replacement is ready. A pod also waits while budgets or pods cannot be
// read. After two minutes it goes all the same, and a line says so: a replacement that cannot become ready does not stop
// the drain. Pods without a controller, the only pod of their controller, and pods of DaemonSets and Jobs are not held
// back. Two drains at the same time do not know of each other's evictions.
//
// All functions may be called again after a failure or a crash and go on from what they find. They end when their
// context ends. Nothing is forced: no pod is deleted past its disruption budget and no grace period is shortened.
package drain
