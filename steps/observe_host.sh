# The part of a host's facts that is about Kubernetes; hosts.Facts runs it and gives it part and limited.
# $1: directory of staged files.

part certificate
# Certificates only: the files also hold the kubelet's private key.
kubeconfig=/etc/kubernetes/kubelet.conf
pems() {
  sed -n '/-----BEGIN CERTIFICATE-----/,/-----END CERTIFICATE-----/{
/PRIVATE KEY/q
p
}' "$1" 2>/dev/null
}
pems /var/lib/kubelet/pki/kubelet-client-current.pem || {
  sed -n 's/^ *client-certificate-data: *//p' "$kubeconfig" 2>/dev/null | base64 -d
  pems "$(sed -n 's/^ *client-certificate: *//p' "$kubeconfig" 2>/dev/null)"
}

part user
sed -n 's/^.*\(system:node:[^ @"]*\).*/\1/p' "$kubeconfig" 2>/dev/null | head -n 1

part ca
cat /etc/kubernetes/pki/ca.crt 2>/dev/null

part missing
for c in sha256sum ctr crictl; do command -v "$c" >/dev/null 2>&1 || echo "$c"; done

part cri
sed -n 's/^ *"*containerRuntimeEndpoint"*: *//p' /var/lib/kubelet/instance-config.yaml 2>/dev/null
sed -n 's/.*--container-runtime-endpoint=\([^" ]*\).*/\1/p' /var/lib/kubelet/kubeadm-flags.env 2>/dev/null

part instance
[ ! -e /var/lib/kubelet/instance-config.yaml ] || echo there

part staged
find "$1" -type f 2>/dev/null

part images
limited ctr -n k8s.io images ls -q 2>/dev/null </dev/null

for c in kube-apiserver kube-controller-manager kube-scheduler etcd; do
  [ -f "/etc/kubernetes/manifests/$c.yaml" ] || continue
  part "manifest $c"
  cat "/etc/kubernetes/manifests/$c.yaml"
done
