package drain

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// wire is an API server below the real client: requests overlap, hang and end with their contexts, as they do not with
// the fake clientset.
type wire struct {
	evict func(*http.Request) (code int, header http.Header)

	mu             sync.Mutex
	pods           map[string]*corev1.Pod
	inFlight, most int
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	code, header, body := http.StatusOK, http.Header{}, any(map[string]any{"kind": "List", "apiVersion": "v1"})
	switch {
	case strings.HasSuffix(r.URL.Path, "/eviction"):
		w.enter(+1)
		code, header = w.evict(r)
		w.enter(-1)
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		if code == http.StatusCreated {
			w.delete(strings.Split(r.URL.Path, "/")[6])
		}
		status := metav1.Status{Status: metav1.StatusSuccess}
		if code == http.StatusTooManyRequests {
			status = overBudget("The disruption budget web is still being processed by the server.", 10).(*apierrors.StatusError).ErrStatus
		}
		status.Kind, status.APIVersion = "Status", "v1"
		body = status
	case r.URL.Path == "/api/v1/pods", r.URL.Path == "/api/v1/namespaces/shop/pods":
		body = w.list()
	}
	data, err := json.Marshal(body)
	header.Set("Content-Type", "application/json")
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, err
}

func (w *wire) enter(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight += n
	w.most = max(w.most, w.inFlight)
}

func (w *wire) delete(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, name)
}

func (w *wire) list() corev1.PodList {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list corev1.PodList
	list.Kind, list.APIVersion = "PodList", "v1"
	for _, p := range w.pods {
		list.Items = append(list.Items, *p)
	}
	return list
}

func (w *wire) client(t *testing.T, pods ...*corev1.Pod) kubernetes.Interface {
	w.pods = make(map[string]*corev1.Pod)
	for _, p := range pods {
		w.pods[p.Name] = p
	}
	config := &rest.Config{Host: "http://api", Transport: w, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A request that is never answered costs its own limit, not the drain; the others go on and nothing is lost.
func TestNodeSurvivesHangingRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := false
		w := &wire{evict: func(r *http.Request) (int, http.Header) {
			if strings.Contains(r.URL.Path, "/slow/") && !hung {
				hung = true
				<-r.Context().Done()
			}
			return http.StatusCreated, http.Header{}
		}}
		start := time.Now()
		err := Node(t.Context(), w.client(t, pod("shop/fast"), pod("shop/slow")), "worker-1", Options{})
		if took := time.Since(start); err != nil || len(w.pods) > 0 || took < callTimeout || took > 2*callTimeout {
			t.Errorf("after %v: error %v, left %d", took, err, len(w.pods))
		}
	})
}

func TestNodeLimitsEvictionsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{evict: func(*http.Request) (int, http.Header) {
			timer := time.NewTimer(time.Second)
			<-timer.C
			return http.StatusCreated, http.Header{}
		}}
		var pods []*corev1.Pod
		for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
			pods = append(pods, pod("shop/"+name))
		}
		if err := Node(t.Context(), w.client(t, pods...), "worker-1", Options{}); err != nil {
			t.Fatal(err)
		}
		if w.most != width {
			t.Errorf("%d evictions at once, want %d", w.most, width)
		}
	})
}

// The typed client would repeat a 429 with Retry-After inside the call and hide the reason.
func TestNodeHearsRefusalWithRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &wire{evict: func(r *http.Request) (int, http.Header) {
			asked++
			var e policyv1.Eviction
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil || *e.DeleteOptions.Preconditions.UID != "uid-a" || e.Kind != "Eviction" {
				t.Errorf("got eviction %+v, error %v", e, err)
			}
			return http.StatusTooManyRequests, http.Header{"Retry-After": {"10"}}
		}}
		start := time.Now()
		err := Node(t.Context(), w.client(t, pod("shop/a")), "worker-1", Options{Timeout: 45 * time.Second})
		if took := time.Since(start); took != 45*time.Second || !strings.Contains(err.Error(), "budget web is still being processed") || asked != 5 {
			t.Errorf("after %v and %d evictions: %v", took, asked, err)
		}
	})
}
