package steps

import "testing"

func TestOlder(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"v1.35.4", "v1.36.3", true},
		{"v1.36.3", "v1.35.4", false},
		{"v1.36.3", "v1.36.3", false},
		{"v1.36.9", "v1.36.10", true},
		{"v1.36.0-rc.1", "v1.36.0", true},
		{"3.6.6-0", "3.6.8-0", true},
		{"3.7.0-0", "3.6.8-0", false},
		{"", "v1.36.3", false},
		{"v1.36.3", "", false},
		{"latest", "v1.36.3", false},
		{"v1.36", "v1.36.3", false}, // no full version: nothing is known of it
	}
	for _, tt := range tests {
		if got := older(tt.a, tt.b); got != tt.want {
			t.Errorf("older(%q, %q) is %v", tt.a, tt.b, got)
		}
	}
}

func TestMinorOf(t *testing.T) {
	for v, want := range map[string]int{"v1.36.3": 36, "1.9.0": 9, "v1.37.0-alpha.1": 37, "v1.36": -1, "": -1, "new": -1} {
		got, ok := minorOf(v)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("minor of %q is %d, %v, want %d", v, got, ok, want)
		}
	}
}

func TestImageReferences(t *testing.T) {
	tests := []struct{ image, repository, tag string }{
		{"registry.k8s.io/kube-apiserver:v1.36.3", "kube-apiserver", "v1.36.3"},
		{"registry.k8s.io/coredns/coredns:v1.14.0", "coredns", "v1.14.0"},
		{"registry:5000/etcd:3.6.8-0", "etcd", "3.6.8-0"},
		{"registry:5000/etcd", "etcd", ""},
		{"registry:5000/k8s/etcd:3.6.8-0@sha256:0123", "etcd", "3.6.8-0"},
		{"registry:5000/etcd@sha256:0123", "etcd", ""},
		{"pause:3.10.1", "pause", "3.10.1"},
		{"pause", "pause", ""},
		{"", "", ""},
	}
	for _, tt := range tests {
		if r, tag := repositoryOf(tt.image), tagOf(tt.image); r != tt.repository || tag != tt.tag {
			t.Errorf("%q is %q, %q, want %q, %q", tt.image, r, tag, tt.repository, tt.tag)
		}
	}
}

// What programs print of themselves.
func TestVersionIn(t *testing.T) {
	for text, want := range map[string]string{
		"v1.35.4":                         "v1.35.4",
		"Kubernetes v1.36.3":              "v1.36.3",
		"Client Version: v1.36.3":         "v1.36.3",
		"crictl version v1.36.0":          "v1.36.0",
		"crictl version 1.35.0-3-gabcdef": "v1.35.0-3-gabcdef",
		"v1.37.0-alpha.1+dirty":           "v1.37.0-alpha.1+dirty",
		"":                                "",
		"command not found":               "",
		"version 1.36":                    "",
	} {
		if got := versionIn(text); got != want {
			t.Errorf("version in %q is %q, want %q", text, got, want)
		}
	}
}
