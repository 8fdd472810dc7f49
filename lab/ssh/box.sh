# Makes a host without Kubernetes that has every kind of user, and several sshds. It also makes the keys of the site, with
# OpenSSH's own tools, in /opt/keys. Arguments: its address, the passphrase of the locked key.
address=$1
umask 022
mkdir -m 700 -p /opt/keys
cd /opt/keys
key() { ssh-keygen -q -t "$2" -N "${3:-}" -C "$1 of the lab" -f "$1"; }
key plain ed25519
key locked ed25519 "$2"
key other ed25519
key certified ed25519
key certified-rsa rsa
key rsa rsa
key user-ca ed25519
key host-ca ed25519
ssh-keygen -q -s user-ca -I certified -n ops -V -5m:+1d certified.pub
ssh-keygen -q -s user-ca -I certified-rsa -n ops -V -5m:+1d certified-rsa.pub
ssh-keygen -q -s host-ca -h -I box -n "$address" /etc/ssh/ssh_host_ed25519_key.pub
cat plain.pub locked.pub rsa.pub >/run/lab/authorized_keys
cp user-ca.pub /etc/ssh/user-ca.pub
install -m 600 -o ops /run/lab/authorized_keys /home/ops/.ssh/authorized_keys

account fish /usr/bin/fish
may fish 'NOPASSWD: ALL'
account csh /bin/tcsh
may csh 'NOPASSWD: ALL' '!use_pty'
account zsh /bin/zsh
may zsh 'NOPASSWD: ALL'
account pass /bin/bash
may pass ALL timestamp_timeout=0 lecture=always
account pty /bin/bash
may pty 'NOPASSWD: ALL' requiretty use_pty
account ptypass /usr/bin/fish
may ptypass ALL requiretty use_pty passprompt_override 'passprompt="[%h] password for %p: "'
account nosudo /bin/bash
account noisy /bin/bash
may noisy 'NOPASSWD: ALL'
account noisycsh /bin/tcsh
may noisycsh 'NOPASSWD: ALL'
account masked /bin/bash
may masked 'NOPASSWD: ALL' umask=0077 umask_override
chpasswd </run/lab/passwords

home noisy .bashrc <<'END'
echo 'Welcome to this host!'
echo 'last reboot: unknown' >&2
printf 'no end of line'
END
home noisycsh .cshrc <<'END'
echo "Welcome to this host, csh"
sh -c "echo on the other stream >&2"
END
home masked .bashrc <<'END'
umask 0027
export TMOUT=1 IFS=: POSIXLY_CORRECT=1 CDPATH=/usr ENV=/nowhere BASH_ENV=/nowhere GREP_OPTIONS=-v
readonly TMOUT
PATH=/usr/bin:/bin
set -u
ulimit -c 0
END

strict
noexec
cat >/usr/lib/lab/garbage <<'END'
#!/bin/sh
echo 'This subsystem says something before it begins.'
exec /usr/lib/openssh/sftp-server
END
chmod 755 /usr/lib/lab/garbage

cat >/etc/ssh/sshd_config <<'END'
Subsystem sftp /usr/lib/openssh/sftp-server
Include /etc/ssh/strict
END
mkdir -p /etc/ssh/lab
cat >/etc/ssh/lab/closed <<'END'
Port 2201
DisableForwarding yes
MaxSessions 2
Include /etc/ssh/strict
END
cat >/etc/ssh/lab/garbage <<'END'
Port 2202
Subsystem sftp /usr/lib/lab/garbage
Include /etc/ssh/strict
END
cat >/etc/ssh/lab/certificates <<'END'
Port 2203
AuthorizedKeysFile none
TrustedUserCAKeys /etc/ssh/user-ca.pub
HostCertificate /etc/ssh/ssh_host_ed25519_key-cert.pub
Subsystem sftp internal-sftp
Include /etc/ssh/strict
END
cat >/etc/systemd/system/lab-sshd@.service <<'END'
[Unit]
After=ssh.service
Requires=ssh.service
[Service]
ExecStart=/usr/sbin/sshd -D -f /etc/ssh/lab/%i -o PidFile=none
KillMode=process
[Install]
WantedBy=multi-user.target
END
systemctl restart ssh
systemctl enable --quiet --now lab-sshd@closed lab-sshd@garbage lab-sshd@certificates
