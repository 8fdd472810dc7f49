# Read before the script of every role: what makes a lab host as strict as a real one.
set -eu

# account NAME SHELL makes a user who logs in with the keys of the lab.
account() {
	useradd --create-home --shell "$2" "$1"
	install -d -m 700 -o "$1" -g "$1" "/home/$1/.ssh"
	install -m 600 -o "$1" -g "$1" /run/lab/authorized_keys "/home/$1/.ssh/authorized_keys"
}

# may NAME RULE [DEFAULT]... is what sudo lets a user do.
may() {
	name=$1 rule=$2 file=/etc/sudoers.d/lab-$1
	shift 2
	for default; do echo "Defaults:$name $default"; done >"$file"
	echo "$name ALL=(ALL:ALL) $rule" >>"$file"
	chmod 440 "$file"
	visudo -cqf "$file"
}

# home NAME FILE writes what it reads below a user's home.
home() {
	install -d -o "$1" -g "$1" "$(dirname "/home/$1/$2")"
	cat >"/home/$1/$2"
	chown -R "$1:$1" "/home/$1"
}

# strict writes what every sshd of the lab includes after its own lines. The first value wins.
strict() {
	cat >/etc/ssh/strict <<-'END'
		PermitRootLogin no
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		PermitEmptyPasswords no
		UsePAM yes
		HostKey /etc/ssh/ssh_host_ed25519_key
		KexAlgorithms sntrup761x25519-sha512@openssh.com,curve25519-sha256
		Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com
		MACs hmac-sha2-512-etm@openssh.com
		LoginGraceTime 20
		MaxAuthTries 3
		MaxStartups 3:50:10
		ClientAliveInterval 5
		ClientAliveCountMax 3
		TCPKeepAlive no
		X11Forwarding no
		AllowAgentForwarding no
		PermitTunnel no
		PermitUserRC no
		Banner /etc/ssh/banner
		LogLevel VERBOSE
	END
	printf '%s\n' 'Authorised use only.' 'Everything is recorded.' >/etc/ssh/banner
}

# unit NAME writes what it reads as a unit that runs once at boot, and runs it now.
unit() {
	cat >"/usr/lib/lab/$1"
	chmod 755 "/usr/lib/lab/$1"
	cat >"/etc/systemd/system/$1.service" <<-END
		[Unit]
		DefaultDependencies=no
		After=local-fs.target
		Before=ssh.service
		[Service]
		Type=oneshot
		RemainAfterExit=yes
		ExecStart=/usr/lib/lab/$1
		[Install]
		WantedBy=multi-user.target
	END
	systemctl daemon-reload
	systemctl enable --quiet --now "$1"
}

# noexec keeps programs from where everybody may write, as the CIS benchmark asks. /dev/shm is so by Docker.
noexec() {
	unit lab-noexec <<-'END'
		#!/bin/sh
		set -eu
		mount -o remount,noexec,nosuid,nodev /tmp
		mount --bind /var/tmp /var/tmp
		mount -o remount,bind,noexec,nosuid,nodev /var/tmp
	END
}

# ipv6 ADDRESS gives the host an address of that kind beside the one that Docker gave it.
ipv6() {
	unit lab-ipv6 <<-END
		#!/bin/sh
		set -eu
		sysctl -q -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.eth0.disable_ipv6=0
		ip -6 address replace $1/64 dev eth0 nodad
	END
}
