package steps

import (
	"encoding/json"
	"fmt"
)

// runtimeProblem reads what `crictl info` prints: the runtime's own conditions. Network readiness
// is the Node's matter: without a pod network configuration it is not Ready.
func runtimeProblem(info []byte) (string, error) {
	var answer struct {
		Status struct {
			Conditions []struct {
				Type, Reason, Message string
				Status                bool
			}
		}
	}
	if err := json.Unmarshal(info, &answer); err != nil {
		return "", fmt.Errorf("crictl info: %w", err)
	}
	for _, c := range answer.Status.Conditions {
		if c.Type != "RuntimeReady" {
			continue
		}
		if !c.Status {
			return fmt.Sprintf("the container runtime is not ready: %s %s", c.Reason, c.Message), nil
		}
		return "", nil
	}
	return "the container runtime does not say whether it is ready", nil
}
