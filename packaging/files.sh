#!/bin/sh
# Every file of this root, to be compared before packages came and after they were purged. Logs, caches and the package manager's own
# records are not the packages'; nor are the copies that programs keep of what they change, what a shell remembers, and the keys that DKMS makes for itself.
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/tmp -o -path /packages -o -path /var/log \
	-o -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd -o -path '/var/lib/dkms/mok.*' -o -path /root/.bash_history -o -name '*-' \) -prune -o -print | sort
