package main

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

func TestProblem(t *testing.T) {
	booted := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct{ name, object, want string }{
		{"Ready node", `{"kind": "Node", "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T12:00:05Z"}]}}`, ""},
		{"node as it was before the boot", `{"kind": "Node", "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T11:59:59Z"}]}}`, "not heard of since it booted"},
		{"node that is not Ready", `{"kind": "Node", "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "lastHeartbeatTime": "2026-03-01T12:00:05Z"}]}}`, "not Ready: KubeletNotReady"},
		{"node without conditions", `{"kind": "Node"}`, "has no Ready condition"},
		{"Ready pod", `{"kind": "Pod", "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"state": {"running": {"startedAt": "2026-03-01T12:00:09Z"}}}]}}`, ""},
		{"pod as it was before the boot", `{"kind": "Pod", "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"state": {"running": {"startedAt": "2026-03-01T11:00:00Z"}}}]}}`, "not started since its host booted"},
		{"completed pod", `{"kind": "Pod", "status": {"phase": "Succeeded"}}`, ""},
		{"pod that waits for a node", `{"kind": "Pod", "status": {"phase": "Pending"}}`, "has no Ready condition"},
		{"whole Deployment", `{"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": {"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 3}}`, ""},
		{"Deployment not looked at yet", `{"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": {"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": 3}}`, "3 of 3 ready, 3 current"},
		{"StatefulSet that lacks one", `{"kind": "StatefulSet", "spec": {"replicas": 2}, "status": {"readyReplicas": 1, "updatedReplicas": 2}}`, "1 of 2 ready, 2 current"},
		{"whole DaemonSet", `{"kind": "DaemonSet", "status": {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2}}`, ""},
		{"DaemonSet that nobody has scheduled", `{"kind": "DaemonSet"}`, "0 of 0 ready, 0 current"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var o object
			if err := json.Unmarshal([]byte(test.object), &o); err != nil {
				t.Fatal(err)
			}
			if got := o.problem(booted); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestVersionIn(t *testing.T) {
	answer := "{\n  \"major\": \"1\",\n  \"gitVersion\": \"v1.36.3\",\n  \"platform\": \"linux/amd64\"\n}"
	for _, test := range []struct {
		answer string
		err    error
		want   string
	}{{answer, nil, "v1.36.3"}, {"", nil, "-"}, {answer, errors.New("refused"), "no answer"}} {
		if got := versionIn(test.answer, test.err); got != test.want {
			t.Errorf("versionIn(%q, %v) = %q, want %q", test.answer, test.err, got, test.want)
		}
	}
}
