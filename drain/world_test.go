package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var (
	podsGVR  = corev1.SchemeGroupVersion.WithResource("pods")
	nodesGVR = corev1.SchemeGroupVersion.WithResource("nodes")
)

// world is an API server as the drain sees it: pods are listed by node, an eviction with the right UID removes the pod.
type world struct {
	*fake.Clientset
	t *testing.T

	// answer may refuse an eviction; nil lets the world answer. It runs while the fake is locked: use Tracker only.
	answer func(w *world, pod *corev1.Pod) error
	// unselective lists the pods of all nodes, whatever is asked for.
	unselective bool
	// stopping keeps an evicted pod for this long, with a deletion timestamp.
	stopping time.Duration

	evictions []*policyv1.Eviction
	log       []string
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	w := &world{Clientset: fake.NewClientset(objects...), t: t}
	w.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		return true, nil, w.evict(a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction))
	})
	w.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, w.list(a.GetNamespace(), a.(clienttesting.ListAction).GetListRestrictions().Fields), nil
	})
	return w
}

// list applies the field selector, which the fake's own tracker ignores.
func (w *world) list(namespace string, selector fields.Selector) *corev1.PodList {
	all, err := w.Tracker().List(podsGVR, corev1.SchemeGroupVersion.WithKind("Pod"), namespace)
	if err != nil {
		w.t.Error(err)
	}
	list := all.(*corev1.PodList).DeepCopy()
	list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		over := p.DeletionTimestamp != nil && time.Now().After(p.DeletionTimestamp.Time) && len(p.Finalizers) == 0
		return over || !w.unselective && !selector.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName})
	})
	return list
}

func (w *world) evict(e *policyv1.Eviction) error {
	w.evictions = append(w.evictions, e)
	if e.DeleteOptions == nil || e.DeleteOptions.Preconditions == nil || e.DeleteOptions.Preconditions.UID == nil {
		w.t.Errorf("eviction of %s/%s has no UID precondition", e.Namespace, e.Name)
		return apierrors.NewBadRequest("no UID")
	}
	if grace := e.DeleteOptions.GracePeriodSeconds; grace != nil {
		w.t.Errorf("eviction of %s/%s overrides the grace period with %d", e.Namespace, e.Name, *grace)
	}
	object, err := w.Tracker().Get(podsGVR, e.Namespace, e.Name)
	if err != nil {
		return err
	}
	pod := object.(*corev1.Pod)
	if uid := *e.DeleteOptions.Preconditions.UID; uid != pod.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, e.Name, fmt.Errorf("the UID in the precondition (%s) does not match", uid))
	}
	if w.answer != nil {
		if err := w.answer(w, pod); err != nil {
			return err
		}
	}
	w.remove(pod)
	return nil
}

func (w *world) remove(pod *corev1.Pod) {
	if w.stopping == 0 && len(pod.Finalizers) == 0 {
		w.must(w.Tracker().Delete(podsGVR, pod.Namespace, pod.Name))
		return
	}
	pod = pod.DeepCopy()
	end := metav1.NewTime(time.Now().Add(w.stopping))
	pod.DeletionTimestamp = &end
	w.must(w.Tracker().Update(podsGVR, pod, pod.Namespace))
}

// recreate does what a controller does: the same name, another UID, perhaps another node.
func (w *world) recreate(pod *corev1.Pod, node string) {
	w.must(w.Tracker().Delete(podsGVR, pod.Namespace, pod.Name))
	fresh := pod.DeepCopy()
	fresh.UID += "-again"
	fresh.Spec.NodeName = node
	w.must(w.Tracker().Add(fresh))
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Error(err)
	}
}

// options are Options that log into the world.
func (w *world) options() Options {
	return Options{Logf: func(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }}
}

// evicted returns namespace/name=uid of each eviction that was asked for, in order.
func (w *world) evicted() []string {
	var all []string
	for _, e := range w.evictions {
		all = append(all, fmt.Sprintf("%s/%s=%s", e.Namespace, e.Name, *e.DeleteOptions.Preconditions.UID))
	}
	return all
}

// left returns namespace/name of the pods that still exist anywhere.
func (w *world) left() []string {
	var names []string
	for _, p := range w.list(metav1.NamespaceAll, fields.Everything()).Items {
		names = append(names, nameOf(&p))
	}
	slices.Sort(names)
	return names
}

// changes describes the recorded actions that change something.
func (w *world) changes() []string {
	var all []string
	for _, a := range w.Actions() {
		if slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) {
			continue
		}
		line := strings.Trim(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/")
		if patch, ok := a.(clienttesting.PatchAction); ok {
			line += " " + string(patch.GetPatch())
		}
		all = append(all, line)
	}
	return all
}

// fail makes an action fail a number of times, then lets it pass.
func (w *world) fail(verb, resource string, times int, err error) {
	w.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if times == 0 {
			return false, nil, nil
		}
		times--
		return true, nil, err
	})
}

type podOption func(*corev1.Pod)

// pod is a running, ready pod on node "worker-1", the only one of its ReplicaSet.
func pod(name string, options ...podOption) *corev1.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: "worker-1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	ownedBy("ReplicaSet", name+"-5d9")(p)
	for _, o := range options {
		o(p)
	}
	return p
}

func ownedBy(kind, name string) podOption {
	return func(p *corev1.Pod) {
		controller := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + kind + "-" + name), Controller: &controller}}
	}
}

func bare(p *corev1.Pod)                 { p.OwnerReferences = nil }
func unready(p *corev1.Pod)              { p.Status.Conditions = nil }
func phase(ph corev1.PodPhase) podOption { return func(p *corev1.Pod) { p.Status.Phase = ph } }
func on(node string) podOption           { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func labelled(key, value string) podOption {
	return func(p *corev1.Pod) { meta.NewAccessor().SetLabels(p, map[string]string{key: value}) }
}

func emptyDir(names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, name := range names {
			source := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		}
	}
}

func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	ownedBy("Node", "worker-1")(p)
}

func terminating(due time.Time, finalizers ...string) podOption {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = &metav1.Time{Time: due}
		p.Finalizers = finalizers
	}
}

func daemonSet(name string) *appsv1.DaemonSet {
	namespace, name, _ := strings.Cut(name, "/")
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func node(name string, unschedulable bool, window string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}, Spec: corev1.NodeSpec{Unschedulable: unschedulable}}
	if window != "" {
		n.Annotations = map[string]string{WindowAnnotation: window}
	}
	return n
}

// overBudget is the API server's refusal for the sake of a disruption budget.
func overBudget(message string, retryAfter int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: message}}
	return err
}

func (w *world) drain(ctx context.Context, o Options) error {
	return Node(ctx, w.Clientset, "worker-1", o)
}
