package drain_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kuberung/kuberung/drain"
)

// A look says what a drain would do, and which consent it lacks.
func ExampleLook() {
	client := fake.NewClientset(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "debug"},
		Spec:       corev1.PodSpec{NodeName: "worker-1"},
	})
	ctx := context.TODO()
	survey, err := drain.Look(ctx, client, "worker-1", drain.Options{})
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range survey.Refused {
		fmt.Printf("%s: %s (%s)\n", r.Pod, r.Reason, r.Consent)
	}
	survey, err = drain.Look(ctx, client, "worker-1", drain.Options{Unmanaged: drain.Consent{"shop/debug"}})
	fmt.Println(len(survey.Evict), len(survey.Refused), err)
	// Output:
	// shop/debug: no controller would create it again (Unmanaged)
	// 1 0 <nil>
}
