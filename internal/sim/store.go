package sim

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// object is what the API keeps.
type object interface {
	runtime.Object
	metav1.Object
}

// store is what etcd holds, by resource and by "namespace/name".
type store struct {
	revision int64
	objects  map[string]map[string]object
}

func newStore() *store { return &store{revision: 1, objects: map[string]map[string]object{}} }

func keyOf(namespace, name string) string { return namespace + "/" + name }

// put keeps an object, as a new revision.
func (s *store) put(resource string, o object) {
	s.revision++
	o.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.revision)))
		o.SetCreationTimestamp(metav1.Now())
	}
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]object{}
	}
	s.objects[resource][keyOf(o.GetNamespace(), o.GetName())] = o
}

func (s *store) delete(resource string, o object) {
	s.revision++
	delete(s.objects[resource], keyOf(o.GetNamespace(), o.GetName()))
}

// find gives an object; nil if there is none.
func find[T object](s *store, resource, namespace, name string) T {
	o, _ := s.objects[resource][keyOf(namespace, name)].(T)
	return o
}

// list gives all objects of a resource, sorted.
func list[T object](s *store, resource string) []T {
	all := make([]T, 0, len(s.objects[resource]))
	for _, key := range sortedKeys(s.objects[resource]) {
		all = append(all, s.objects[resource][key].(T))
	}
	return all
}
