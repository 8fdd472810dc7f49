package main

import "testing"

func TestGoModPinsStagingModules(t *testing.T) {
	base := `// a comment with k8s.io/api => ./staging/src/k8s.io/api
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubectl => ./staging/src/k8s.io/kubectl
)
`
	want := `module lab.invalid/build

go 1.26.0
godebug default=go1.26
require k8s.io/kubernetes v1.36.3
replace k8s.io/api => k8s.io/api v0.36.3
replace k8s.io/kubectl => k8s.io/kubectl v0.36.3
`
	if got := goMod(base, []module{{"k8s.io/kubernetes", "v1.36.3"}}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestGoModRequiresEveryModule(t *testing.T) {
	base := "module go.etcd.io/etcd/server/v3\n\ngo 1.24\n\nreplace go.etcd.io/etcd/api/v3 => ../api\n"
	want := "module lab.invalid/build\n\ngo 1.24\nrequire go.etcd.io/etcd/server/v3 v3.6.8\nrequire go.etcd.io/etcd/etcdctl/v3 v3.6.8\n"
	got := goMod(base, []module{{"go.etcd.io/etcd/server/v3", "v3.6.8"}, {"go.etcd.io/etcd/etcdctl/v3", "v3.6.8"}})
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
