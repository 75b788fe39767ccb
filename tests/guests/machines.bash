# Machines of QEMU that are saved, restored or moved with a pool: for copied_guest, cloned_guest and moved_guest. They set $vshmem, $pool and
# $subject, and $work for files. In a machine a program ($guest_program, or token) waits for a token, and says what has come of it, again and
# again. $more_programs are there as well.
guest_program=${guest_program:-token}
skip() {
	echo "    SKIPPED: $subject: $1"
	echo "1 passed, 0 failed"
	exit 0
}
for tool in qemu-system-x86_64 busybox cpio cc; do
	command -v $tool >/dev/null || skip "$tool is not installed"
done
. "$(dirname "$0")"/find_kernel.sh
find_kernel || skip "no kernel image with modules, installed or unpacked (scripts/guest-kernel)"

root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,modules,tmp,run,var,etc}
cp "$(command -v busybox)" "$root/bin/busybox"
for module in nfit nd_pmem device_dax dax_pmem virtio_pci virtio_pmem; do
	grep -E "/$module\.ko(\.[a-z]+)?:" "$modules/modules.dep" | tr -d ':' | tr ' ' '\n' | tac
done | awk '!seen[$1]++' | while read -r module; do
	cp "$modules/$module" "$root/modules/" && basename "$module" >>"$root/modules/order"
done
for module in ${driver:-}; do
	cp "$module" "$root/modules/" && basename "$module" >>"$root/modules/order"
done
for program in $guest_program ${more_programs:-}; do
	cc -Wall -Wextra -Werror -o "$work/$program" "$(dirname "$0")/$program.c" -lpthread || exit 1
	cp "$work/$program" "$root/bin/"
done
cp "$vshmem" "$(dirname "$vshmem")"/libvshmem_preload*.so "$root/bin/"
ldd "$root"/bin/{vshmem,libvshmem_preload.so,"$guest_program"} | grep -o '/[^ ]*' | grep -v "^$root" | tr -d : | sort -u | while read -r library; do
	mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"
done
# NAME, TOKEN, PROGRAM and what it DOES come from the kernel's command line, as all words there that the kernel does not know.
cat >"$root/init" <<'EOS'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm
hostname $NAME
while read -r module; do insmod /modules/$module; done </modules/order
device() { ls -d /dev/dax* /dev/vshmem/* 2>/dev/null | head -1; }
until [ "$(device)" ]; do usleep 100000; done
# To the kernel's log, which writes to the serial line without interrupts: a restored machine may have lost the one that is waited for.
say() { echo "<2>GUEST $*" >/dev/kmsg; }
while :; do
	# One that was gone is another one, however short that was.
	until [ "$(device)" ]; do usleep 100000; done
	node=$(stat -c %i "$(device)")
	[ "$node" = "${known:=$node}" ] || say "the pool's device is there: $(vshmem pool join "$(device)" 2>&1)"
	known=$node
	say "$(vshmem run --pool "$(device)" --share all,posix -- /bin/$PROGRAM $DOES $TOKEN 2>&1 | tr '\n' ' ' | cut -c1-700)"
	for line in 'has a copy of the pool' 'a copy of this machine is a member'; do
		dmesg | grep -q "$line" && say "the kernel's log: $line"
	done
	usleep 500000
done
EOS
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

passed=0 failed=0
verdict() { # verdict CODE WHAT
	if [ "$1" = 0 ]; then echo "ok   $2"; passed=$((passed + 1)); else echo "FAIL $2"; failed=$((failed + 1)); fi
}
# An emulated guest on a loaded machine takes minutes for what else takes seconds.
patience=900
within() { # within SECONDS CONDITION...: waits until it holds
	local end=$((SECONDS + $1))
	shift
	until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}
boot() { # boot NAME TOKEN POOL-FILE WORDS...: its serial line goes to NAME.log, orders for QEMU come from NAME.orders
	local name=$1 token=$2 file=$3
	shift 3
	: >"$work/$name.log"
	mkfifo "$work/$name.orders"
	# More than one CPU at most: QEMU's emulation uses atomic instructions only then.
	# shellcheck disable=SC2046
	qemu-system-x86_64 -accel tcg,thread=multi -smp 1,maxcpus=2 -m 512 -display none -no-reboot -kernel "$image" -initrd "$work/initrd" \
		-append "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off printk.devkmsg=on NAME=$name TOKEN=$token PROGRAM=$guest_program DOES=${does:-take}" -serial file:"$work/$name.log" -monitor stdio $(device "$file") "$@" \
		<>"$work/$name.orders" >"$work/$name.said" 2>&1 &
	machine=$!
}
device() { # device POOL-FILE: the words that give a machine this file as its pool, or only the port for it where that is `none`
	local file=$1
	if [ "$kind" = doorbell ] || [ "$kind" = plain ]; then
		echo -machine q35 -device pcie-root-port,id=rp0,chassis=1,pref64-reserve=1G
		[ "$file" = none ] || echo $("$vshmem" pool show "$pool" --as qemu --device "$kind"),bus=rp0
	elif [ "$kind" = nvdimm ]; then
		echo -machine q35 $("$vshmem" pool show "$pool" --as qemu) | sed "s,/dev/shm/vshmem\.$pool\>,$1,g"
	else
		echo -machine q35 -m slots=4,maxmem=64G -object memory-backend-file,id=p,share=on,mem-path="$1",size="$(stat -c %s "$1")" \
			-device virtio-pmem-pci,memdev=p
	fi
}
order() { echo "$2" >"$work/$1.orders"; }
said() { tr -d '\r' <"$work/$1.log" 2>/dev/null | grep -c "GUEST .*$2"; }
has_said() { [ "$(said "$1" "$2")" -ge "${3:-1}" ]; }
waiting() { # waiting COUNT: so many threads of programs sleep in the pool
	[ "$("$vshmem" ls --pool "$pool" --json | tr -d ' \n' | grep -o '{"index":[^}]*"sleeping":[0-9]*' | grep -v '"state":"agent"' |
		awk -F: '{ all += $NF } END { print all + 0 }')" = "$1" ]
}
saved() { order "$1" "info migrate"; tr -d '\r' <"$work/$1.said" | grep -q 'Migration status: completed'; }
# A command to a machine that was saved while it was stopped has no effect before all of it is there.
continues() { order "$1" cont; order "$1" "info status"; tr -d '\r' <"$work/$1.said" | grep -q '^VM status: running'; }
give() { "$vshmem" run --pool "$pool" -- "$work/$guest_program" give "$1" >/dev/null; }
