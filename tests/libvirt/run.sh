#!/bin/bash
# libvirt itself with the elements that `vshmem pool show --as libvirt` prints: define, start, hot-plug, unplug, destroy, start again, and
# what comes up by itself after the host was booted. The domains are emulated; the guest sees its pools by name.
#   tests/libvirt/run.sh VSHMEM [PART...]      PARTs: definitions (seconds), plans, life, host_boot, out_of_order, other_devices, apply
# As root; needs libvirtd, QEMU, busybox and a kernel for guests (scripts/setup guests qemu libvirt)
# Everything is in namespaces of its own, /dev/shm and /run too: the machine's libvirt, pools and networks are not touched. The last
# line counts.
set -u
if [ "${1:-}" != inside ]; then
	vshmem=$(realpath "${1:-target/release/vshmem}")
	parts=("${@:2}")
	[ "${#parts[@]}" != 0 ] || parts=(definitions plans life host_boot out_of_order other_devices apply)
	here=$(cd "$(dirname "$0")" && pwd)
	cd "$here/../.." || exit 1
	skip() { printf '    SKIPPED: libvirt: %s\n1 passed, 0 failed\n' "$1"; exit 0; }
	PATH=$PATH:/usr/sbin:/sbin
	[ "$(id -u)" = 0 ] || skip "only root can start libvirtd in namespaces of its own"
	for tool in libvirtd virsh qemu-system-x86_64 busybox cpio cc unshare; do
		command -v $tool >/dev/null || skip "$tool is not installed (scripts/setup guests qemu libvirt)"
	done
	for kernels in "" /var/lib/vshmem/guest-kernel; do
		image=$(ls -v "$kernels"/boot/vmlinuz-* 2>/dev/null | tail -1)
		[ ! -r "$image" ] || break
	done
	[ -n "$image" ] || skip "there is no kernel for guests, installed or unpacked (scripts/guest-kernel)"
	work=$(mktemp -d /var/tmp/vshmem-libvirt.XXXXXX)
	inside=
	# unshare lets no signal but this one end it; with --kill-child everything in the namespaces ends with it.
	trap '[ -z "$inside" ] || kill -KILL "$inside" 2>/dev/null; rm -rf "$work"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	# QEMU runs as a user of its own and has to get here.
	chmod 755 "$work"
	unshare --mount --net --ipc --uts --pid --fork --kill-child --mount-proc bash "$here/run.sh" inside "$vshmem" "$work" "$image" "$PWD" "${parts[@]}" &
	inside=$!
	wait "$inside"
	status=$?
	inside=
	exit $status
fi
shift
vshmem=$1 work=$2 image=$3 tree=$4
parts=("${@:5}")
export LC_ALL=C.UTF-8 LIBVIRT_DEFAULT_URI=qemu:///system
passed=0 failed=0
check() { # check WHAT COMMAND...
	local what=$1 output
	shift
	if output=$("$@" 2>&1); then
		echo "ok   $what"
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED: %s\n%s\n' "$what" "$output" | tail -40
		grep ': error :' "$work/libvirtd.log" 2>/dev/null | tail -n 3
	fi
}
within() { # within SECONDS COMMAND...: repeats it until it succeeds; on a machine that does other things besides, five times as long
	local end=$((SECONDS + 5 * $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "not within the time: $*"; return 1; }
		sleep 0.3
	done
}
fails() { # fails PATTERN COMMAND...: with words that match
	local pattern=$1 output
	shift
	! output=$("$@" 2>&1) && grep -q -- "$pattern" <<<"$output" || { echo "$* said: $output"; return 1; }
}

# A host's boot: nothing in /run and /dev/shm, files in /etc stay.
empty_memory() {
	for place in /run /dev/shm; do
		umount -q -l "$place"
		mount -t tmpfs -o mode=1777 tmpfs "$place"
	done
	mkdir -p /run/vshmem
}
start_pools() { # what vshmem-pool@ and vshmem-serve@ do, and in their order before libvirtd
	local name options
	for name in "$@"; do
		options=$(sed -n 's/^OPTIONS=//p' "/etc/vshmem/pools.d/$name.conf")
		# shellcheck disable=SC2086
		sh "$work/make-pool" "$name" $options || return 1
	done
}
serve() {
	"$vshmem" pool serve "$1" >"$work/serve.log" 2>&1 &
	within 30 test -S "/run/vshmem/serve/$1.sock"
}
libvirt_answers() { virsh list; }
start_libvirt() {
	libvirtd --config "$work/libvirtd.conf" --pid-file "$work/libvirtd.pid" >"$work/libvirtd.log" 2>&1 &
	within 60 libvirt_answers
}
has_ended() { [ ! -e "/proc/$1" ]; }
stop_libvirt() {
	local process
	process=$(cat "$work/libvirtd.pid") && kill "$process" && within 60 has_ended "$process"
}
# Machines outlive libvirtd; a host that goes down ends them.
stop_machines() {
	local machine
	for machine in /run/libvirt/qemu/*.pid; do
		[ ! -e "$machine" ] || kill -KILL "$(cat "$machine")" 2>/dev/null
	done
	# libvirt notes its users' files in their attributes, with the time of the host's boot, which is still the same here.
	rm -f "$work/guest.log"
}

prepare_host() {
	mount --make-rprivate /
	empty_memory
	for place in /etc/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt /etc/vshmem; do
		mkdir -p "$place"
		mount -t tmpfs tmpfs "$place"
	done
	ip link set lo up
	hostname libvirt-test
	mkdir -p /etc/vshmem/pools.d
	# As the packages of libvirt and udev make them, which may not be there whole: an ordinary user, and the group of the pools.
	if ! getent passwd libvirt-qemu >/dev/null || ! getent group kvm >/dev/null; then
		cp /etc/passwd /etc/group "$work/"
		getent group kvm >/dev/null || echo 'kvm:x:64054:' >>"$work/group"
		sed -i '/^libvirt-qemu:/d' "$work/passwd" "$work/group"
		echo 'libvirt-qemu:x:64055:' >>"$work/group"
		mount --bind "$work/group" /etc/group
		echo "libvirt-qemu:x:64055:$(getent group kvm | cut -d: -f3)::/var/lib/libvirt:/usr/sbin/nologin" >>"$work/passwd"
		mount --bind "$work/passwd" /etc/passwd
	fi
	# Its own defaults, but that there are neither control groups nor labels here.
	cat >/etc/libvirt/qemu.conf <<-END
		security_driver = "none"
		cgroup_controllers = [ ]
		stdio_handler = "file"
	END
	printf 'auth_unix_rw = "none"\n' >"$work/libvirtd.conf"
	sed -e "s,@PREFIX@/bin/vshmem,$vshmem," "$tree/packaging/systemd/make-pool.in" >"$work/make-pool"
	chown libvirt-qemu:kvm "$work"
}

# A kernel and a program that shows, line by line, the pools of this guest: busybox, and the memory of each device by its own file.
make_guest() {
	local root=$work/root
	mkdir -p "$root"/{bin,proc,sys,dev}
	cp "$(command -v busybox)" "$root/bin/busybox"
	cat >"$work/look.c" <<-'END'
		#include <fcntl.h>
		#include <stdio.h>
		#include <sys/mman.h>
		int main(int count, char **words)
		{
			for (int i = 1; i < count; i++) {
				int file = open(words[i], O_RDWR);
				char *pool = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
				if (pool != MAP_FAILED)
					printf(" %.32s", pool + 32);
			}
			return 0;
		}
	END
	cc -static -Wall -Wextra -Werror -o "$root/bin/look" "$work/look.c" || return 1
	cat >"$root/init" <<-'END'
		#!/bin/busybox sh
		export PATH=/bin
		/bin/busybox --install -s /bin
		mount -t proc none /proc
		mount -t sysfs none /sys
		mount -t devtmpfs none /dev
		round=0
		while :; do
			files=
			for device in /sys/bus/pci/devices/*; do
				[ "$(cat $device/vendor)$(cat $device/device)" != 0x1af40x1110 ] || {
					echo 1 >$device/enable
					files="$files $device/resource2"
				}
			done
			round=$((round + 1))
			echo "ROUND $round POOLS$(look $files) END"
			usleep 300000
		done
	END
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"
	# libvirt has QEMU open them as the other user.
	cp "$image" "$work/kernel"
	chmod 644 "$work/kernel" "$work/initrd"
}
sees() { # sees NAME...: the guest's last whole line names these pools and no others
	local last
	last=$(tr -d '\r' <"$work/guest.log" | grep -a '^ROUND .* END$' | tail -1)
	[ "$(sed 's/^ROUND [0-9]* POOLS//; s/ END$//' <<<"$last" | tr ' ' '\n' | grep . | sort | tr '\n' ' ')" = "$(printf '%s\n' "$@" | grep . | sort | tr '\n' ' ')" ]
}

owner= # an element that says whose files are
domain() { # domain NAME ELEMENT-FILE: a domain with this element among its devices
	cat <<-END
		<domain type='qemu'>
		  <name>$1</name>
		  <maxMemory slots='4' unit='GiB'>8</maxMemory>
		  <memory unit='MiB'>256</memory>
		  <vcpu>2</vcpu>
		  <os>
		    <type arch='x86_64' machine='pc'>hvm</type>
		    <kernel>$work/kernel</kernel>
		    <initrd>$work/initrd</initrd>
		    <cmdline>console=ttyS0 quiet panic=-1 no_timer_check mitigations=off</cmdline>
		  </os>
		  <features><acpi/></features>
		  <cpu><numa><cell id='0' cpus='0-1' memory='256' unit='MiB'/></numa></cpu>
		  <on_reboot>restart</on_reboot>
		  <devices>
		    <serial type='file'><source path='$work/guest.log'/></serial>
		    <memballoon model='none'/>
		$(cat "$2")
		  </devices>
		  $owner
		</domain>
	END
}
define() { # define NAME POOL [DEVICE]
	"$vshmem" pool show "$2" --as libvirt ${3:+--device "$3"} >"$work/$2.xml" 2>"$work/hints" && domain "$1" "$work/$2.xml" >"$work/$1.xml" &&
		virt-xml-validate "$work/$1.xml" domain && virsh define "$work/$1.xml"
}
fresh_start() { # fresh_start NAME: and nothing of what the machine before it has said
	: >"$work/guest.log"
	virsh start "$1"
}
owner_of() { stat -c '%U:%G %a' "/dev/shm/vshmem.$1"; }
unchanged() { [ "$(owner_of "$1")" = 'root:kvm 660' ] || { owner_of "$1"; return 1; }; }

all_pools() { start_pools one two labelled; }

# Definitions alone: what `make test` has time for.
definitions() {
	check 'define with ivshmem-plain' define guest one plain
	check 'define with ivshmem-doorbell' define bell two doorbell
	check 'define with an nvdimm' define dimm labelled
	check 'something else is refused' fails 'XML' bash -c "sed 's/ivshmem-plain/ivshmem-odd/' '$work/guest.xml' >'$work/odd.xml' && virsh define --validate '$work/odd.xml'"
	for name in guest bell dimm; do virsh undefine "$name" >/dev/null; done
}

life() {
	check 'define' define guest one plain
	check 'start' fresh_start guest
	check 'the guest sees its pool' within 300 sees one
	check 'the file is still its owner'\''s' unchanged one
	check 'the element of another' bash -c "'$vshmem' pool show two --as libvirt --device plain >'$work/two.xml'"
	check 'attach-device' virsh attach-device guest "$work/two.xml" --live
	check 'the guest sees both' within 120 sees one two
	check 'detach-device' virsh detach-device guest "$work/two.xml" --live
	check 'the guest sees the first again' within 120 sees one
	check 'the other is still there' "$vshmem" pool check two
	check 'destroy' virsh destroy guest
	check 'the pool outlives it' "$vshmem" pool check one
	check 'start again' fresh_start guest
	check 'and the guest sees it again' within 300 sees one
}

# The host is booted: everything stops, memory is empty; then what has to come up does so in the order of the units.
host_boot() {
	virsh domstate guest 2>/dev/null | grep -q running || { define guest one plain && virsh start guest; } >/dev/null 2>&1
	check 'autostart' virsh autostart guest
	check 'libvirtd stops' stop_libvirt
	stop_machines
	empty_memory
	check 'no pool is left' bash -c '! ls /dev/shm/vshmem.* 2>/dev/null'
	check 'pools of pools.d' all_pools
	check 'libvirtd again' start_libvirt
	check 'the domain starts by itself' within 60 bash -c 'virsh domstate guest | grep -q running'
	check 'with its pool' within 300 sees one
	check 'which is the one of pools.d' unchanged one
	check 'destroy' virsh destroy guest
	virsh undefine guest >/dev/null
}

# libvirt then makes a file of that name itself. The pool's unit must not take it for a pool.
out_of_order() {
	check 'a domain of a pool that is not there' define late two plain
	"$vshmem" pool rm two >/dev/null
	check 'starts all the same' virsh start late --paused
	check 'and the unit says what is wrong' fails 'vshmem pool rm two' start_pools two
	check 'destroy' virsh destroy late
	check 'its remedy works' bash -c "'$vshmem' pool rm two && [ ! -e /dev/shm/vshmem.two ]"
	check 'then the pool is made' start_pools two
	virsh undefine late >/dev/null
}

# That QEMU takes them from libvirt, before the guest runs.
other_devices() {
	check 'a server' serve two
	check 'define with doorbell' define bell two
	check 'it is the doorbell' grep -q ivshmem-doorbell "$work/two.xml"
	check 'start' virsh start bell --paused
	check 'the server has its guest' within 30 grep -q 'guest 1: connected' "$work/serve.log"
	check 'destroy' virsh destroy bell
	check 'define with an nvdimm' define dimm labelled
	check 'start' virsh start dimm --paused
	check 'destroy' virsh destroy dimm
	# libvirt gives the file of an nvdimm to QEMU's user meanwhile.
	check 'the file is its owner'\''s again' unchanged labelled
	virsh undefine dimm >/dev/null
	owner='<seclabel type="static" model="dac" relabel="no"><label>libvirt-qemu:kvm</label></seclabel>'
	check 'define with the owner kept' define dimm labelled
	check 'start' virsh start dimm --paused
	check 'the file is still its owner'\''s' unchanged labelled
	check 'destroy' virsh destroy dimm
	virsh undefine dimm >/dev/null
}

. "$tree/tests/libvirt/apply.sh"
. "$tree/tests/libvirt/plans.sh"

prepare_host
check 'a guest of busybox' make_guest
for name in one two; do echo 'OPTIONS=--size 16M --mode 0660 --group kvm' >/etc/vshmem/pools.d/$name.conf; done
echo 'OPTIONS=--size 16M --mode 0660 --group kvm --dax' >/etc/vshmem/pools.d/labelled.conf
check 'pools' all_pools
check 'libvirtd' start_libvirt
for part in "${parts[@]}"; do $part; done
check 'libvirtd stops' stop_libvirt
echo "$passed passed, $failed failed"
[ $failed = 0 ]
