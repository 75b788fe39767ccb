# To be sourced by run.sh: what `vshmem plan` writes, in libvirt's hands. Every domain of every machine that plans are tested with is
# defined; the plan of this very machine is started, its guest reports what it sees, and it is destroyed.

# Each domain is checked and defined by the daemon, and undefined again. A connection for the guests of each plan.
define_all() {
	local machine how place file count=0
	for machine in "$tree"/crates/vshmem_plan/tests/machines/*.xml; do
		for how in "--guests per-socket" "--guests per-node --hugepages 2M --smt off" "--guests 1 --pool-numa ranges"; do
			place=$work/plans
			# shellcheck disable=SC2086
			"$vshmem" plan --topology "xml:$machine" $how --pool 64M --emulated --as libvirt --output "$place" >"$work/files" || return 1
			while read -r file; do printf 'define --validate %s\n' "$file"; done <"$work/files" >"$work/orders"
			while read -r file; do printf 'undefine %s\n' "$(basename "$file" .xml)"; done <"$work/files" >>"$work/orders"
			# Seconds, on a machine that does nothing else. Cut off, it leaves domains to the next plan.
			timeout 900 virsh --keepalive-interval 0 <"$work/orders" >"$work/said" 2>&1
			[ "$(grep -c "^Domain 'guest[0-9]*' defined" "$work/said")" = "$(wc -l <"$work/files")" ] ||
				{ echo "$machine $how:"; grep -i error "$work/said"; return 1; }
			count=$((count + $(wc -l <"$work/files")))
		done
	done
	echo "     $count domains" >&3
}

# This machine's plan, with what it leaves to the user: a kernel, and a file for the console. The guest is small: the host keeps the rest.
plan_this_machine() {
	local megabytes
	# What a balloon has taken is not the nodes', though it is in /proc/meminfo.
	megabytes=$(awk '$3 == "MemTotal:" { all += $4 } END { print all }' /sys/devices/system/node/node*/meminfo)
	"$vshmem" plan --guests 1 --host-memory "$((megabytes / 1024 - 600))M" --pool 16M --emulated --as libvirt >"$work/this.xml" || return 1
	sed -i -e "s,vshmem.job1,vshmem.one," \
		-e "s,</os>,<kernel>$work/kernel</kernel><initrd>$work/processors</initrd><cmdline>console=ttyS0 quiet panic=-1 no_timer_check mitigations=off stay</cmdline></os>," \
		-e "s,<console type='pty'/>,<serial type='file'><source path='$work/guest.log'/></serial><memballoon model='none'/>," "$work/this.xml"
	virsh define --validate "$work/this.xml"
}
# A guest that says what processors, nodes and pools it has.
make_processors_guest() {
	cp -a "$work/root" "$work/processors-root" && cp "$tree/tests/plan/report" "$work/processors-root/init" &&
		chmod +x "$work/processors-root/init" &&
		(cd "$work/processors-root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/processors" && chmod 644 "$work/processors"
}
reported() { tr -d '\r' <"$work/guest.log" | grep -aq "^SEEN $1\$"; }
# Each vCPU's thread runs where the plan has it.
is_pinned() {
	local process vcpu cpu task
	process=$(cat /run/libvirt/qemu/guest1.pid) || return 1
	sed -n "s/.*vcpupin vcpu='\([0-9]*\)' cpuset='\([0-9]*\)'.*/\1 \2/p" "$work/this.xml" >"$work/pins"
	[ -s "$work/pins" ] || return 1
	while read -r vcpu cpu; do
		task=$(grep -l "^CPU $vcpu/" /proc/"$process"/task/*/comm | cut -d/ -f5)
		[ -n "$task" ] && [ "$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$process/task/$task/status")" = "$cpu" ] ||
			{ echo "vCPU $vcpu is not on CPU $cpu"; return 1; }
	done <"$work/pins"
}

plans() {
	# Nothing runs by KVM here. Where there is a device for it that QEMU cannot use, libvirt probes QEMU anew for each domain.
	[ ! -e /dev/kvm ] || { install -m 000 /dev/null "$work/no-kvm" && mount --bind "$work/no-kvm" /dev/kvm; }
	exec 3>&1
	check 'every domain of every plan is defined' define_all
	exec 3>&-
	[ ! -e "$work/no-kvm" ] || umount /dev/kvm
	command -v lstopo-no-graphics >/dev/null || { printf '    SKIPPED: the plan of this machine: hwloc is not installed\n'; return; }
	check 'a guest that reports' make_processors_guest
	check 'the plan of this machine' plan_this_machine
	check 'start' fresh_start guest1
	check 'its vCPUs are pinned as planned' is_pinned
	check 'the guest reports its processors' within 300 reported 'end'
	check 'as many as planned' reported "processors $(grep -c '<vcpupin' "$work/this.xml")"
	check 'and a pool' reported 'pool on node [-0-9]*'
	check 'destroy' virsh destroy guest1
	check 'the pool outlives it' "$vshmem" pool check one
	virsh undefine guest1 >/dev/null
}
