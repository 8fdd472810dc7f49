package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/kuberung/kuberung/drain"
	"github.com/kuberung/kuberung/etcdbackup"
)

// observeAPIServers asks each control plane's own API server for its version.
func (s *Session) observeAPIServers(ctx context.Context, seen map[string]Host) {
	s.mu.Lock()
	endpoints, transport := s.endpoints, s.transport
	s.mu.Unlock()
	var asked []endpoint // looked up before the first answer changes seen
	for _, e := range endpoints {
		if _, ok := seen[e.host]; ok {
			asked = append(asked, e)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, e := range asked {
		wg.Go(func() {
			version, err := serverVersion(ctx, transport, e)
			mu.Lock()
			defer mu.Unlock()
			h := seen[e.host]
			h.APIVersion, h.APIErr = version, err
			seen[e.host] = h
		})
	}
	wg.Wait()
}

// observeComponents asks each control plane's controller manager and scheduler how they are.
func (s *Session) observeComponents(ctx context.Context, seen map[string]Host) {
	for _, name := range sorted(seen) {
		h := seen[name]
		h.Sick = nil
		for _, component := range leaders {
			address := h.Manifests[component].Health
			if address == "" || h.Err != nil {
				continue
			}
			problem, err := s.healthz(name, component, address)(ctx)
			if err != nil {
				problem = err.Error()
			}
			if problem != "" {
				h.Sick = append(h.Sick, problem)
			}
		}
		seen[name] = h
	}
}

func serverVersion(ctx context.Context, f *failover, e endpoint) (string, error) {
	raw, err := f.get(ctx, e, "/version")
	if err != nil {
		return "", err
	}
	var info struct{ GitVersion string }
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("/version: %w", err)
	}
	return info.GitVersion, nil
}

// observeCluster reads the part of the cluster's facts that every lane asks for again.
func (s *Session) observeCluster(ctx context.Context) ClusterFacts {
	facts, err := readCluster(ctx, s.api())
	facts.Err = err
	facts.At = time.Now()
	return facts
}

func readCluster(ctx context.Context, client kubernetes.Interface) (ClusterFacts, error) {
	f := ClusterFacts{Nodes: map[string]Node{}}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		f.Nodes[n.Name] = nodeOf(n)
	}
	kubeadm, err := readKubeadmConfig(ctx, client)
	if err != nil {
		return f, err
	}
	f.KubeadmVersion, f.ExternalEtcd = kubeadm.KubernetesVersion, kubeadm.Etcd.External != nil
	f.EtcdTag, f.DNSTag = kubeadm.Etcd.Local.ImageTag, kubeadm.DNS.ImageTag
	proxy, err := client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return f, fmt.Errorf("read DaemonSet kube-proxy: %w", err)
	}
	if err == nil {
		f.ProxyImage = firstImage(proxy.Spec.Template.Spec)
		f.Rollout = proxyRollout(proxy)
	}
	dns, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return f, fmt.Errorf("read Deployment coredns: %w", err)
	}
	if err == nil {
		f.CoreDNSImage = firstImage(dns.Spec.Template.Spec)
		f.CoreDNSReplicas = *dns.Spec.Replicas
		if f.Rollout == "" {
			f.Rollout = dnsRollout(dns)
		}
	}
	return f, nil
}

func firstImage(spec corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Image
}

func nodeOf(n corev1.Node) Node {
	node := Node{
		Name: n.Name, Kubelet: n.Status.NodeInfo.KubeletVersion,
		Cordoned: n.Spec.Unschedulable, Window: n.Annotations[drain.WindowAnnotation],
		MachineID: n.Status.NodeInfo.MachineID,
		NotReady:  "it reports no Ready condition",
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			node.Ready = c.Status == corev1.ConditionTrue
			node.NotReady = strings.TrimSpace(c.Reason + ": " + c.Message)
		}
	}
	for _, a := range n.Status.Addresses {
		node.Addresses = append(node.Addresses, a.Address)
		if a.Type == corev1.NodeInternalIP {
			node.Internal = append(node.Internal, a.Address)
		}
		if a.Type == corev1.NodeInternalIP && node.Address == "" {
			node.Address = a.Address
			node.Kubelets = net.JoinHostPort(a.Address, strconv.Itoa(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)))
		}
	}
	return node
}

// kubeadmConfig is the part of kubeadm's ClusterConfiguration that kuberung reads.
// https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/
type kubeadmConfig struct {
	KubernetesVersion string `json:"kubernetesVersion"`
	Etcd              struct {
		External *struct{} `json:"external"`
		Local    imageTag  `json:"local"`
	} `json:"etcd"`
	DNS        imageTag `json:"dns"`
	Networking struct {
		DNSDomain string `json:"dnsDomain"`
	} `json:"networking"`
}

// imageTag is an image whose tag the operator may have pinned.
type imageTag struct {
	ImageTag string `json:"imageTag"`
}

func readKubeadmConfig(ctx context.Context, client kubernetes.Interface) (kubeadmConfig, error) {
	var c kubeadmConfig
	cm, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		return c, fmt.Errorf("read ConfigMap kube-system/kubeadm-config: %w", err)
	}
	if err := yaml.Unmarshal([]byte(cm.Data["ClusterConfiguration"]), &c); err != nil {
		return c, fmt.Errorf("ConfigMap kube-system/kubeadm-config: ClusterConfiguration: %w", err)
	}
	if c.KubernetesVersion == "" {
		return c, fmt.Errorf("ConfigMap kube-system/kubeadm-config: ClusterConfiguration names no kubernetesVersion")
	}
	return c, nil
}

// observeForPlan adds what is read once per plan: the photo of workloads, etcd's health, and what
// each drain would meet.
func (s *Session) observeForPlan(ctx context.Context, f *Facts) {
	client := s.api()
	var wg sync.WaitGroup
	wg.Go(func() {
		access, endpoints := s.etcdAccess()
		status := etcdbackup.Observe(ctx, access, endpoints)
		f.Cluster.Etcd.Problems = etcdbackup.Problems(status)
		for _, m := range status {
			f.Cluster.Etcd.DBSize = max(f.Cluster.Etcd.DBSize, m.DBSize)
			if oldest := f.Cluster.Etcd.Oldest; m.Version != "" && (oldest == "" || older(m.Version, oldest)) {
				f.Cluster.Etcd.Oldest = m.Version
			}
		}
	})
	s.observeComponents(ctx, f.Hosts)
	var photoErr error
	wg.Go(func() { photoErr = takePhoto(ctx, client, &f.Cluster) })
	drains := map[string]Drain{}
	for _, name := range sorted(f.Cluster.Nodes) {
		drains[name] = s.lookAtDrain(ctx, client, name)
	}
	wg.Wait()
	f.Cluster.Drains = drains
	f.Cluster.Err = photoErr
}

func (s *Session) lookAtDrain(ctx context.Context, client kubernetes.Interface, node string) Drain {
	found, err := drain.Look(ctx, client, node, s.drainOptions(nil))
	d := Drain{Refused: found.Refused, Consented: found.Consented, Err: err}
	if err != nil {
		return d
	}
	hindrances, err := drain.Budgets(ctx, client, found.Evict)
	d.Err = err
	for _, h := range hindrances {
		text := fmt.Sprintf("%s: %s", h.Pod, h.Reason)
		if h.Never {
			d.Never = append(d.Never, text)
		} else {
			d.NotNow = append(d.NotNow, text)
		}
	}
	return d
}

// takePhoto counts the ready replicas of each workload and the containers in a crash loop, to
// compare with later.
func takePhoto(ctx context.Context, client kubernetes.Interface, f *ClusterFacts) error {
	var err error
	if f.Workloads, err = readWorkloads(ctx, client); err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	f.Crashing = crashing(pods.Items)
	f.Daemons = readyDaemons(pods.Items)
	return nil
}

func readWorkloads(ctx context.Context, client kubernetes.Interface) (map[string]Workload, error) {
	found := map[string]Workload{}
	deployments, err := client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	for _, d := range deployments.Items {
		found["Deployment "+d.Namespace+"/"+d.Name] = Workload{*d.Spec.Replicas, d.Status.ReadyReplicas}
	}
	sets, err := client.AppsV1().StatefulSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	for _, d := range sets.Items {
		found["StatefulSet "+d.Namespace+"/"+d.Name] = Workload{*d.Spec.Replicas, d.Status.ReadyReplicas}
	}
	return found, nil
}

// readyDaemons gives the DaemonSets that have a Ready pod on a node, by "node namespace/name".
func readyDaemons(pods []corev1.Pod) map[string]bool {
	found := map[string]bool{}
	for _, p := range pods {
		owner := metav1.GetControllerOf(&p)
		if owner != nil && owner.Kind == "DaemonSet" && podReady(p) && p.DeletionTimestamp == nil {
			found[p.Spec.NodeName+" "+p.Namespace+"/"+owner.Name] = true
		}
	}
	return found
}

func crashing(pods []corev1.Pod) map[string]bool {
	found := map[string]bool{} // by namespace/owner/container
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
				found[p.Namespace+"/"+ownerName(p)+"/"+c.Name] = true
			}
		}
	}
	return found
}

// ownerName is what outlives one pod: its controller, or the pod itself when it has none.
func ownerName(p corev1.Pod) string {
	if owner := metav1.GetControllerOf(&p); owner != nil {
		return owner.Name
	}
	return p.Name
}

// clusterDomain gives the DNS domain of the cluster, as kubeadm was told.
func (s *Session) clusterDomain(ctx context.Context) (string, error) {
	c, err := readKubeadmConfig(ctx, s.api())
	if err != nil {
		return "", err
	}
	if c.Networking.DNSDomain == "" {
		return "cluster.local", nil
	}
	return c.Networking.DNSDomain, nil
}
