# Undoes what node.sh did. No arguments.
systemctl disable --quiet --now lab-noexec lab-ipv6
umount /var/tmp
mount -o remount,exec,nosuid,nodev /tmp
ip -6 address flush dev eth0
sysctl -q -w net.ipv6.conf.all.disable_ipv6=1
rm /etc/systemd/system/lab-noexec.service /etc/systemd/system/lab-ipv6.service /usr/lib/lab/lab-noexec /usr/lib/lab/lab-ipv6
systemctl daemon-reload
mv /etc/ssh/sshd_config.before /etc/ssh/sshd_config
rm -r /etc/ssh/strict /etc/ssh/banner /etc/sudoers.d/lab-deploy
systemctl restart ssh
loginctl terminate-user deploy 2>/dev/null || true
userdel --remove deploy 2>&1 | grep -v 'mail spool' || true
