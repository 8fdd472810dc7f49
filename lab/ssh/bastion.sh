# Makes a host a bastion. Arguments: its IPv6 address, from where one may come, and the host:port pairs to which one may go on.
ipv6 "$1"
from=$2
shift 2
account jump /usr/sbin/nologin
strict
cat >/etc/ssh/sshd_config <<END
AllowUsers jump@$from
AllowTcpForwarding local
PermitOpen $*
MaxSessions 0
Include /etc/ssh/strict
END
systemctl restart ssh
