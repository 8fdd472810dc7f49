package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// kinds are the resources that the API has, each with its group, version and kind.
var kinds = map[string]schema.GroupVersionKind{
	"nodes":                corev1.SchemeGroupVersion.WithKind("Node"),
	"pods":                 corev1.SchemeGroupVersion.WithKind("Pod"),
	"services":             corev1.SchemeGroupVersion.WithKind("Service"),
	"configmaps":           corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	"events":               corev1.SchemeGroupVersion.WithKind("Event"),
	"daemonsets":           {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	"deployments":          {Group: "apps", Version: "v1", Kind: "Deployment"},
	"replicasets":          {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	"statefulsets":         {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	"leases":               {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	"endpointslices":       {Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	"poddisruptionbudgets": {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
}

// apiWorks reports whether the API server of a control plane answers requests: it needs its own etcd member.
func (w *World) apiWorks(h *host) bool {
	return h.runs("kube-apiserver") && w.etcd.works(h)
}

func (w *World) anyAPI() *host {
	for _, h := range w.controlPlanes() {
		if w.apiWorks(h) {
			return h
		}
	}
	return nil
}

// apiServer is the API server of one control plane.
type apiServer struct{ h *host }

// ServeHTTP answers what a real one would. One without etcd holds requests for a while before it gives up.
func (a apiServer) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w := a.h.w
	w.mu.Lock()
	works := w.apiWorks(a.h)
	verdict := w.faults.api(w, a.h, r)
	w.mu.Unlock()
	switch r.URL.Path {
	case "/version":
		w.mu.Lock()
		version := a.h.versionOf("kube-apiserver")
		w.mu.Unlock()
		fmt.Fprintf(out, `{"gitVersion":%q}`, version)
		return
	case "/livez":
		_, _ = io.WriteString(out, "ok")
		return
	case "/readyz", "/healthz":
		if !works {
			out.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(out, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed")
			return
		}
		_, _ = io.WriteString(out, "ok")
		return
	}
	if !works {
		hold(r, 7*time.Second)
		answerStatus(out, apierrors.NewInternalError(fmt.Errorf("etcdserver: request timed out")))
		return
	}
	if verdict != nil {
		answerStatus(out, verdict)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.mu.Lock()
	answer, code, failure := w.answer(r, body)
	w.mu.Unlock()
	if failure != nil {
		answerStatus(out, failure)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(code)
	_, _ = out.Write(answer)
}

// hold keeps a request waiting.
func hold(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
}

func answerStatus(out http.ResponseWriter, err *apierrors.StatusError) {
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	text, _ := json.Marshal(s) // plain data
	out.Header().Set("Content-Type", "application/json")
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		out.Header().Set("Retry-After", fmt.Sprint(s.Details.RetryAfterSeconds))
	}
	out.WriteHeader(int(s.Code))
	_, _ = out.Write(text)
}

// place is what a path of the API means.
type place struct{ namespace, resource, name, sub string }

func placeOf(path string) (place, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return place{}, false
	}
	p := place{}
	if parts[0] == "namespaces" && len(parts) > 2 {
		p.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	p.resource, p.name, p.sub = parts[0], parts[1], parts[2]
	_, known := kinds[p.resource]
	return p, known
}

// answer does what a request asks for.
func (w *World) answer(r *http.Request, body []byte) ([]byte, int, *apierrors.StatusError) {
	p, known := placeOf(r.URL.Path)
	if !known {
		w.breaks("known", "the API was asked for %s %s, which it does not have", r.Method, r.URL.Path)
		return nil, 0, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path)
	}
	gr := schema.GroupResource{Group: kinds[p.resource].Group, Resource: p.resource}
	if r.Method == http.MethodGet && p.name == "" {
		return w.answerList(p, r), http.StatusOK, nil
	}
	if r.Method == http.MethodPost && p.sub == "" {
		return w.create(p, gr, body)
	}
	o := w.store.objects[p.resource][keyOf(p.namespace, p.name)]
	if o == nil {
		return nil, 0, apierrors.NewNotFound(gr, p.name)
	}
	switch {
	case r.Method == http.MethodGet:
		return encode(p.resource, o), http.StatusOK, nil
	case r.Method == http.MethodPost && p.sub == "eviction":
		return w.evict(o.(*corev1.Pod), body)
	case r.Method == http.MethodPatch, r.Method == http.MethodPut:
		return w.change(p, gr, o, r.Method == http.MethodPatch, body)
	case r.Method == http.MethodDelete:
		w.store.delete(p.resource, o)
		return encode(p.resource, o), http.StatusOK, nil
	}
	w.breaks("known", "the API was asked for %s %s, which it does not do", r.Method, r.URL.Path)
	return nil, 0, apierrors.NewMethodNotSupported(gr, r.Method)
}

func encode(resource string, o object) []byte {
	o.GetObjectKind().SetGroupVersionKind(kinds[resource])
	text, _ := json.Marshal(o) // plain data
	return text
}

func (w *World) answerList(p place, r *http.Request) []byte {
	byField, _ := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	byLabel, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	items := []json.RawMessage{}
	for _, o := range list[object](w.store, p.resource) {
		set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
		if pod, ok := o.(*corev1.Pod); ok {
			set["spec.nodeName"] = pod.Spec.NodeName
		}
		if (p.namespace == "" || o.GetNamespace() == p.namespace) && (byField == nil || byField.Matches(set)) && (byLabel == nil || byLabel.Matches(labels.Set(o.GetLabels()))) {
			items = append(items, encode(p.resource, o))
		}
	}
	gvk := kinds[p.resource]
	text, _ := json.Marshal(map[string]any{ // plain data
		"kind": gvk.Kind + "List", "apiVersion": gvk.GroupVersion().String(), "items": items,
		"metadata": map[string]string{"resourceVersion": fmt.Sprint(w.store.revision)},
	})
	return text
}

func (w *World) create(p place, gr schema.GroupResource, body []byte) ([]byte, int, *apierrors.StatusError) {
	o, err := decode(body)
	if err != nil {
		return nil, 0, apierrors.NewBadRequest(err.Error())
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(p.namespace)
	}
	if w.store.objects[p.resource][keyOf(o.GetNamespace(), o.GetName())] != nil {
		return nil, 0, apierrors.NewAlreadyExists(gr, o.GetName())
	}
	w.store.put(p.resource, o)
	w.changed("API: " + p.resource + " " + o.GetName() + " is created")
	return encode(p.resource, o), http.StatusCreated, nil
}

func decode(body []byte) (object, error) {
	raw, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	o, ok := raw.(object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", raw)
	}
	return o, nil
}

// change patches or replaces an object. A resource version in the request must be that of the object.
func (w *World) change(p place, gr schema.GroupResource, o object, patch bool, body []byte) ([]byte, int, *apierrors.StatusError) {
	if patch {
		var now, with map[string]any
		if json.Unmarshal(encode(p.resource, o), &now) != nil || json.Unmarshal(body, &with) != nil {
			return nil, 0, apierrors.NewBadRequest("no JSON")
		}
		if meta, _ := with["metadata"].(map[string]any); meta["resourceVersion"] != nil && meta["resourceVersion"] != o.GetResourceVersion() {
			return nil, 0, apierrors.NewConflict(gr, p.name, fmt.Errorf("it has changed"))
		}
		body, _ = json.Marshal(merge(now, with)) // plain data
	}
	fresh, err := decode(body)
	if err != nil {
		return nil, 0, apierrors.NewBadRequest(err.Error())
	}
	if v := fresh.GetResourceVersion(); v != "" && v != o.GetResourceVersion() {
		return nil, 0, apierrors.NewConflict(gr, p.name, fmt.Errorf("it has changed"))
	}
	w.store.put(p.resource, fresh)
	if n, ok := fresh.(*corev1.Node); ok {
		w.nodeChanged(o.(*corev1.Node), n)
	}
	w.changed("API: " + p.resource + " " + p.name + " is changed")
	return encode(p.resource, fresh), http.StatusOK, nil
}

// patch asks for a change of an object as a client would.
func (w *World) patch(path, body string) error {
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPatch, path, nil)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, _, failure := w.answer(r, []byte(body)); failure != nil {
		return failure
	}
	return nil
}

// merge is a JSON merge patch (RFC 7386). What is patched here has no lists that a strategic one would merge.
func merge(now, with map[string]any) map[string]any {
	if now == nil {
		now = map[string]any{}
	}
	for key, value := range with {
		inner, nested := value.(map[string]any)
		switch {
		case value == nil:
			delete(now, key)
		case nested:
			old, _ := now[key].(map[string]any)
			now[key] = merge(old, inner)
		default:
			now[key] = value
		}
	}
	return now
}

// evict is the eviction API: budgets are asked for pods that run.
func (w *World) evict(p *corev1.Pod, body []byte) ([]byte, int, *apierrors.StatusError) {
	gr := schema.GroupResource{Resource: "pods"}
	var e policyv1.Eviction
	if raw, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &e); err != nil || raw != &e {
		return nil, 0, apierrors.NewBadRequest("no Eviction")
	}
	if e.DeleteOptions != nil && e.DeleteOptions.Preconditions != nil && *e.DeleteOptions.Preconditions.UID != p.UID {
		return nil, 0, apierrors.NewConflict(gr, p.Name, fmt.Errorf("another UID"))
	}
	if refused := w.faults.eviction(w); refused != nil {
		return nil, 0, refused
	}
	for _, b := range list[*policyv1.PodDisruptionBudget](w.store, "poddisruptionbudgets") {
		if b.Namespace != p.Namespace || !podIsReady(p) || p.DeletionTimestamp != nil ||
			!labels.SelectorFromSet(b.Spec.Selector.MatchLabels).Matches(labels.Set(p.Labels)) {
			continue
		}
		if b.Status.DisruptionsAllowed < 1 {
			return nil, 0, tooMany("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
		b.Status.DisruptionsAllowed--
	}
	if p.DeletionTimestamp == nil {
		w.performed("evict", w.hostOfNode(p.Spec.NodeName), w.run)
		w.letGo(p)
		w.changed("pod " + p.Name + " is evicted")
	}
	return []byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), http.StatusCreated, nil
}

func tooMany(message string, seconds int) *apierrors.StatusError {
	return apierrors.NewTooManyRequests(message, seconds)
}
