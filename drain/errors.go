package drain

import (
	"fmt"
	"strings"
)

// RefusedError is returned by Node when pods on the node must not be evicted without consent.
type RefusedError struct {
	Node    string
	Refused []Refusal
}

// Error names every pod, what would be lost and which consent is missing.
func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Refused))
	for i, r := range e.Refused {
		lines[i] = fmt.Sprintf("%s: %s (needs consent %s)", r.Pod, r.Reason, r.Consent)
	}
	return fmt.Sprintf("node %s has pods that must not be evicted: %s", e.Node, strings.Join(lines, "; "))
}

// Blocked is a pod that is still on the node and the last reason why.
type Blocked struct {
	Pod    string // namespace/name
	Reason string
}

// BlockedError is returned by Node when it ends before all pods are gone. It unwraps to why it ended.
type BlockedError struct {
	Node string
	Pods []Blocked // sorted by name; empty if the pods could not even be listed
	Err  error
}

// Error names why the drain ended, then every pod left with its last reason.
func (e *BlockedError) Error() string {
	if len(e.Pods) == 0 {
		return fmt.Sprintf("node %s is not drained: %v", e.Node, e.Err)
	}
	lines := make([]string, len(e.Pods))
	for i, p := range e.Pods {
		lines[i] = p.Pod + ": " + p.Reason
	}
	return fmt.Sprintf("node %s is not drained: %v; still there: %s", e.Node, e.Err, strings.Join(lines, "; "))
}

// Unwrap returns why the drain ended: ErrTimeout, ErrForGood, ErrReturns, or the cause of the caller's context.
func (e *BlockedError) Unwrap() error { return e.Err }
