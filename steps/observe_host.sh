# Reads the facts of one host and changes nothing. $1: directory of staged files.
# Output: sections, each headed by a line "#@ NAME".
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"
section() { printf '\n#@ %s\n' "$1"; }

section arch
uname -m

section certificate
# Certificates only: the file also holds the kubelet's private key.
sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p' /var/lib/kubelet/pki/kubelet-client-current.pem 2>/dev/null ||
  sed -n 's/^ *client-certificate-data: *//p' /etc/kubernetes/kubelet.conf 2>/dev/null | base64 -d

section ca
cat /etc/kubernetes/pki/ca.crt 2>/dev/null

section missing
for c in systemd-run systemctl sha256sum ctr; do command -v "$c" >/dev/null 2>&1 || echo "$c"; done
command -v crictl >/dev/null 2>&1 || echo crictl

section binaries
for b in kubeadm kubelet kubectl crictl; do
  p=
  [ "$b" = kubelet ] && p=$(systemctl show kubelet -p ExecStart --value 2>/dev/null | sed -n 's/.*path=\([^ ;]*\).*/\1/p')
  [ -x "$p" ] || p=$(command -v "$b" 2>/dev/null) || continue
  p=$(readlink -f "$p")
  case $b in
    kubeadm) v=$("$p" version -o short 2>/dev/null) ;;
    kubectl) v=$("$p" version --client 2>/dev/null | head -n 1) ;;
    *) v=$("$p" --version 2>/dev/null | head -n 1) ;;
  esac
  owner=$(dpkg -S "$p" 2>/dev/null | head -n 1 | cut -d: -f1)
  [ -n "$owner" ] || owner=$(rpm -qf "$p" 2>/dev/null | grep -v ' ')
  printf '%s\t%s\t%s\t%s\n' "$b" "$p" "$v" "$owner"
done

section cri
sed -n 's/^ *"*containerRuntimeEndpoint"*: *//p' /var/lib/kubelet/instance-config.yaml 2>/dev/null
sed -n 's/.*--container-runtime-endpoint=\([^" ]*\).*/\1/p' /var/lib/kubelet/kubeadm-flags.env 2>/dev/null

section staged
find "$1" -type f 2>/dev/null

section units
systemctl list-units --plain --no-legend --state=active,activating,deactivating,reloading 'kuberung-*.service' 2>/dev/null | cut -d' ' -f1

section images
ctr -n k8s.io images ls -q 2>/dev/null

section disk
for d in /var/lib /etc/kubernetes /usr/bin /usr/local/bin /opt/bin /var/lib/containerd; do
  [ -d "$d" ] && df -Pk "$d" | awk -v d="$d" 'NR == 2 { print d "\t" $6 "\t" $4 }'
done

for c in kube-apiserver kube-controller-manager kube-scheduler etcd; do
  [ -f "/etc/kubernetes/manifests/$c.yaml" ] || continue
  section "manifest $c"
  cat "/etc/kubernetes/manifests/$c.yaml"
done

section end
exit 0
