# Makes a node strict. Arguments: its IPv6 address, those of the host from which one may come, and its role.
ipv6 "$1"
account deploy /usr/bin/fish
may deploy ALL requiretty use_pty timestamp_timeout=0 passwd_timeout=1 umask=0027
chpasswd </run/lab/passwords
home deploy .config/fish/config.fish <<'END'
umask 0027
echo 'Welcome to a node!'
set -gx TMOUT 5
END
strict
noexec
cp -a /etc/ssh/sshd_config /etc/ssh/sshd_config.before
sftp='Subsystem sftp internal-sftp'
[ "$4" = control-plane ] || sftp= # a worker has none
cat >/etc/ssh/sshd_config <<END
AllowUsers deploy@$2 deploy@$3/128
DisableForwarding yes
MaxSessions 2
$sftp
Include /etc/ssh/strict
END
systemctl restart ssh
