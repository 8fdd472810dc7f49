package sim

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// tickControllers is a second in the life of whoever leads.
func (w *World) tickControllers() {
	if w.leads("kube-controller-manager") {
		w.watchNodes()
		w.tickDaemons()
		w.tickReplicas()
		w.countBudgets()
		w.fillEndpoints()
	}
	if w.leads("kube-scheduler") {
		w.schedule()
	}
}

// Leases of leaders, as controller manager and scheduler have them by default.
const (
	leaseRenews = 2 * time.Second
	leaseLasts  = 15 * time.Second
)

// leads lets a component's leader renew its Lease, or another take it over. Each talks to its own API server.
func (w *World) leads(component string) bool {
	works := func(h *host) bool { return h != nil && h.runs(component) && w.apiWorks(h) }
	l := find[*coordinationv1.Lease](w.store, "leases", metav1.NamespaceSystem, component)
	if l != nil {
		age := time.Since(l.Spec.RenewTime.Time)
		holder := w.hostOfNode(*l.Spec.HolderIdentity)
		if works(holder) {
			if age >= w.pace(leaseRenews) {
				w.renew(metav1.NamespaceSystem, component, holder.node, time.Now())
			}
			return true
		}
		if age < leaseLasts {
			return false
		}
	}
	for _, h := range w.controlPlanes() {
		if works(h) {
			w.renew(metav1.NamespaceSystem, component, h.node, time.Now())
			return true
		}
	}
	return false
}

func (w *World) renew(namespace, name, holder string, at time.Time) {
	l := find[*coordinationv1.Lease](w.store, "leases", namespace, name)
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	now := metav1.NewMicroTime(at)
	l.Spec.HolderIdentity, l.Spec.RenewTime = &holder, &now
	w.store.put("leases", l)
}

// watchNodes notes nodes from which no heartbeat comes.
func (w *World) watchNodes() {
	const grace = 40 * time.Second
	for _, n := range list[*corev1.Node](w.store, "nodes") {
		if h := w.hostOfNode(n.Name); nodeIsReady(n) && time.Since(h.kubelet.renewed) > grace && time.Since(w.began) > grace {
			setReady(n, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
			w.store.put("nodes", n)
			w.unready(n.Name)
		}
	}
}

func (w *World) unready(node string) {
	for _, p := range list[*corev1.Pod](w.store, "pods") {
		if p.Spec.NodeName == node && podIsReady(p) {
			markReady(p, false)
			w.store.put("pods", p)
		}
	}
}

// tickDaemons keeps a pod of each DaemonSet on every node; of those that are to be replaced, one at a time.
func (w *World) tickDaemons() {
	pods := w.podsByOwner()
	for _, ds := range list[*appsv1.DaemonSet](w.store, "daemonsets") {
		want := ds.Spec.Template.Spec.Containers[0].Image
		on := map[string]*corev1.Pod{}
		var st appsv1.DaemonSetStatus
		leaving := false
		for _, p := range pods[ds.Name] {
			on[p.Spec.NodeName] = p
			leaving = leaving || !podIsReady(p) || p.DeletionTimestamp != nil
		}
		for _, n := range list[*corev1.Node](w.store, "nodes") {
			st.DesiredNumberScheduled++
			p := on[n.Name]
			switch {
			case p == nil:
				w.newPod(ds, &ds.Spec.Template, "DaemonSet", n.Name)
				leaving = true
				continue
			case p.Spec.Containers[0].Image == want:
				st.UpdatedNumberScheduled++
			case !leaving:
				w.letGo(p)
				leaving = true
			}
			if podIsReady(p) && p.DeletionTimestamp == nil {
				st.NumberReady++
				st.NumberAvailable++
			}
			st.CurrentNumberScheduled++
		}
		st.ObservedGeneration = ds.Generation
		if !equality.Semantic.DeepEqual(st, ds.Status) {
			ds.Status = st
			w.store.put("daemonsets", ds)
		}
	}
}

func (w *World) letGo(p *corev1.Pod) {
	at := metav1.NewTime(time.Now().Add(podGrace))
	p.DeletionTimestamp = &at
	w.store.put("pods", p)
}

func (w *World) podsByOwner() map[string][]*corev1.Pod {
	found := map[string][]*corev1.Pod{}
	for _, p := range list[*corev1.Pod](w.store, "pods") {
		if owner := metav1.GetControllerOf(p); owner != nil {
			found[owner.Name] = append(found[owner.Name], p)
		}
	}
	return found
}

// tickReplicas keeps as many pods of each Deployment as it wants. Its one ReplicaSet here takes over the template.
func (w *World) tickReplicas() {
	pods := w.podsByOwner()
	for _, d := range list[*appsv1.Deployment](w.store, "deployments") {
		rs := find[*appsv1.ReplicaSet](w.store, "replicasets", d.Namespace, d.Name+"-rs")
		var st appsv1.DeploymentStatus
		var stale *corev1.Pod
		missing := int(*d.Spec.Replicas)
		for _, p := range pods[rs.Name] {
			if p.DeletionTimestamp != nil {
				continue
			}
			missing--
			st.Replicas++
			if p.Spec.Containers[0].Image == d.Spec.Template.Spec.Containers[0].Image {
				st.UpdatedReplicas++
			} else {
				stale = p
			}
			if podIsReady(p) {
				st.ReadyReplicas++
				st.AvailableReplicas++
			}
		}
		for range missing {
			w.newPod(rs, &d.Spec.Template, "ReplicaSet", "")
		}
		if stale != nil && missing == 0 && st.ReadyReplicas == *d.Spec.Replicas {
			w.letGo(stale)
		}
		st.ObservedGeneration = d.Generation
		if !equality.Semantic.DeepEqual(st, d.Status) {
			d.Status = st
			w.store.put("deployments", d)
		}
	}
}

func (w *World) newPod(owner object, t *corev1.PodTemplateSpec, kind, node string) {
	w.uids++
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: fmt.Sprintf("%s-%d", owner.GetName(), w.uids), Labels: t.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}},
		},
		Spec:   *t.Spec.DeepCopy(),
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	p.Spec.NodeName = node
	w.store.put("pods", p)
}

// schedule gives pods without a node the one with the fewest of their kind.
func (w *World) schedule() {
	count := map[string]int{} // by node and owner
	pods := list[*corev1.Pod](w.store, "pods")
	for _, p := range pods {
		if owner := metav1.GetControllerOf(p); owner != nil && p.DeletionTimestamp == nil {
			count[p.Spec.NodeName+" "+owner.Name]++
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		owner, best := metav1.GetControllerOf(p).Name, ""
		for _, n := range list[*corev1.Node](w.store, "nodes") {
			if mayRun(p, n) && (best == "" || count[n.Name+" "+owner] < count[best+" "+owner]) {
				best = n.Name
			}
		}
		if best != "" {
			count[best+" "+owner]++
			p.Spec.NodeName = best
			p.CreationTimestamp = metav1.Now()
			w.store.put("pods", p)
		}
	}
}

func mayRun(p *corev1.Pod, n *corev1.Node) bool {
	return !n.Spec.Unschedulable && nodeIsReady(n) && (len(n.Spec.Taints) == 0 || len(p.Spec.Tolerations) > 0)
}

// countBudgets does the disruption controller's sums.
func (w *World) countBudgets() {
	for _, b := range list[*policyv1.PodDisruptionBudget](w.store, "poddisruptionbudgets") {
		selector := labels.SelectorFromSet(b.Spec.Selector.MatchLabels)
		st := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation}
		for _, p := range list[*corev1.Pod](w.store, "pods") {
			if p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) || p.DeletionTimestamp != nil {
				continue
			}
			st.ExpectedPods++
			if podIsReady(p) {
				st.CurrentHealthy++
			}
		}
		st.DesiredHealthy = int32(b.Spec.MinAvailable.IntValue())
		st.DisruptionsAllowed = max(0, st.CurrentHealthy-st.DesiredHealthy)
		if !equality.Semantic.DeepEqual(st, b.Status) {
			b.Status = st
			w.store.put("poddisruptionbudgets", b)
		}
	}
}

// fillEndpoints lets Services send to the pods that are ready.
func (w *World) fillEndpoints() {
	for _, s := range list[*corev1.Service](w.store, "services") {
		if len(s.Spec.Selector) == 0 {
			continue
		}
		selector := labels.SelectorFromSet(s.Spec.Selector)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for _, p := range list[*corev1.Pod](w.store, "pods") {
			if p.Namespace == s.Namespace && selector.Matches(labels.Set(p.Labels)) && podIsReady(p) && p.DeletionTimestamp == nil {
				yes := true
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
					Conditions: discoveryv1.EndpointConditions{Ready: &yes},
					TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
				})
			}
		}
		w.store.put("endpointslices", slice)
	}
}

func nodeIsReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func podIsReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func markReady(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status, p.Status.Phase = corev1.ConditionTrue, corev1.PodRunning
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

func atLeast(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}
