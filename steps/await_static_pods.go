package steps

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kuberung/kuberung/engine"
	"github.com/kuberung/kuberung/hosts"
)

// AwaitStaticPods proves a control plane whose kubelet was restarted. A new minor of the kubelet
// makes all its static pods anew, after the Node already says Ready; so first the sandboxes that
// run must be those that the restarted kubelet itself lists, and only then is health looked at.
func AwaitStaticPods(s *Session, host string) engine.Step[Facts] {
	return step{
		Name: "await-static-pods",
		Does: "wait until the static pods the new kubelet lists are the ones that run, and are healthy",
		Run: func(ctx context.Context, f Facts, log engine.Logf) error {
			sandboxes := s.staticPodsRun(host, f.Hosts[host].CRI, f.Node(host).Kubelets)
			if err := await(ctx, s.Cluster.Timeouts.Gate, s.settle(), log, sandboxes); err != nil {
				return err
			}
			leases, err := s.leasesRenewed(ctx, f)
			if err != nil {
				return err
			}
			return await(ctx, s.Cluster.Timeouts.Gate, s.settle(), log,
				all(sandboxes, s.controlPlaneHealthy(f, host), leases))
		},
	}
}

// staticPodsRun holds when, for every static pod the kubelet lists, a ready sandbox with just its
// UID runs, and none with another.
func (s *Session) staticPodsRun(host, cri, kubelet string) condition {
	client := s.kubeletClient(host, kubelet)
	return func(ctx context.Context) (string, error) {
		listed, err := staticPods(ctx, client)
		if err != nil {
			return "", fmt.Errorf("ask the kubelet of %s for its pods: %w", host, err)
		}
		running, err := s.sandboxes(ctx, host, cri)
		if err != nil {
			return "", fmt.Errorf("ask the container runtime of %s: %w", host, err)
		}
		return compareSandboxes(listed, running), nil
	}
}

// compareSandboxes says which static pod is not yet, or no longer only, the one that is listed. Both
// maps go from pod name; listed to its UID, running to the UIDs of its ready sandboxes.
func compareSandboxes(listed map[string]string, running map[string][]string) string {
	if len(listed) == 0 {
		return "the kubelet lists no static pod yet"
	}
	for _, name := range sorted(listed) {
		uids := running[name]
		switch {
		case len(uids) == 0:
			return "no sandbox of " + name + " runs yet"
		case len(uids) > 1:
			return "an earlier sandbox of " + name + " still runs"
		case uids[0] != listed[name]:
			return "the sandbox of " + name + " is still the one from before the restart"
		}
	}
	return ""
}

// kubeletClient talks to the host's own kubelet, at the address its Node gives, with the admin's
// certificate. The kubelet's own is self-signed; that we talk to this host is proven by SSH.
func (s *Session) kubeletClient(host, address string) *http.Client {
	s.mu.Lock()
	certificates := s.admin.Certificates
	get := s.admin.GetClientCertificate
	s.mu.Unlock()
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.dialHost(ctx, host, address)
		},
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, Certificates: certificates, GetClientCertificate: get,
		},
	}}
}

// staticPods gives the UIDs of the pods that the kubelet reads from files, by namespace/name.
func staticPods(ctx context.Context, client *http.Client) (map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://kubelet.invalid/pods", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/pods answers %s", response.Status)
	}
	var pods corev1.PodList
	if err := json.NewDecoder(response.Body).Decode(&pods); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, p := range pods.Items {
		if p.Annotations["kubernetes.io/config.source"] == "file" {
			found[p.Namespace+"/"+p.Name] = string(p.UID)
		}
	}
	return found, nil
}

// sandboxes gives the UIDs of the ready pod sandboxes of a host, by namespace/name.
func (s *Session) sandboxes(ctx context.Context, host, cri string) (map[string][]string, error) {
	out, err := s.host(host).Run(ctx, hosts.Cmd{
		Argv: []string{"crictl", "--runtime-endpoint", cri, "pods", "--state", "ready", "-o", "json"},
		Sudo: true, Timeout: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return parseSandboxes(out)
}

func parseSandboxes(out []byte) (map[string][]string, error) {
	var list struct {
		Items []struct {
			State    string
			Metadata struct{ Name, Namespace, UID string }
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("crictl pods: %w", err)
	}
	found := map[string][]string{}
	for _, item := range list.Items {
		if strings.HasSuffix(item.State, "NOTREADY") {
			continue
		}
		name := item.Metadata.Namespace + "/" + item.Metadata.Name
		found[name] = append(found[name], item.Metadata.UID)
	}
	return found, nil
}
