//go:build deps

package deps

import (
	_ "al.essio.dev/pkg/shellescape"
	_ "github.com/gliderlabs/ssh"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/renameio/v2"
	_ "github.com/pkg/sftp"
	_ "github.com/skeema/knownhosts"
	_ "github.com/urfave/cli/v2"
	_ "go.etcd.io/bbolt"
	_ "go.etcd.io/etcd/client/v3"
	_ "go.etcd.io/etcd/client/v3/snapshot"
	_ "go.etcd.io/etcd/etcdutl/v3/snapshot"
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "go.yaml.in/yaml/v4"
	_ "golang.org/x/crypto/ssh"
	_ "golang.org/x/crypto/ssh/agent"
	_ "golang.org/x/sync/errgroup"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/util/version"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/kubernetes/fake"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "k8s.io/klog/v2"
	_ "k8s.io/kubectl/pkg/drain"
	_ "k8s.io/kubectl/pkg/polymorphichelpers"
	_ "sigs.k8s.io/yaml"
)
