# Makes a node strict. Arguments: its IPv6 address, those of the host from which one may come, and which sshd it has.
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
case $4 in
control-plane) own='Subsystem sftp internal-sftp' ;;
worker) own='MaxSessions 2' ;; # and no SFTP
esac
cat >/etc/ssh/sshd_config <<END
AllowUsers deploy@$2 deploy@$3/128
DisableForwarding yes
$own
Include /etc/ssh/strict
END
systemctl restart ssh
