#!/bin/bash
# Plans, against those who carry them out: libvirt's schema takes every domain, and guests of QEMU that are started by the
# script that a plan wrote report its sockets, cores, threads, nodes, distances, and the pool's device on its node.
#   tests/plan/run.sh VSHMEM
# The last line counts. Skips loudly what is not installed (scripts/setup guests qemu).
set -u
vshmem=$(realpath "${1:-target/release/vshmem}")
cd "$(dirname "$0")/../.." || exit 1
machines=crates/vshmem_plan/tests/machines
work=$(mktemp -d)
pool=
cleanup() {
	[ -z "$pool" ] || "$vshmem" pool rm "$pool" --force >/dev/null 2>&1
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
passed=0 failed=0
ok() { passed=$((passed + 1)); echo "ok: $1"; }
wrong() { failed=$((failed + 1)); echo "FAILED: $1"; }
skip() { passed=$((passed + 1)); echo "    SKIPPED: $1"; }
finish() {
	echo "$passed passed, $failed failed"
	exit $((failed > 0))
}

# Each machine, cut in different ways.
if command -v virt-xml-validate >/dev/null; then
	count=0 bad=0
	for machine in "$machines"/*.xml; do
		for how in "--guests per-socket" "--guests per-node --hugepages 2M --smt off" "--guests 1 --emulated"; do
			place=$work/$(basename "$machine" .xml)-$count
			# shellcheck disable=SC2086
			"$vshmem" plan --topology "xml:$machine" $how --pool 64M --as libvirt --output "$place" >/dev/null || bad=$((bad + 1))
			for domain in "$place"/*.xml; do
				count=$((count + 1))
				said=$(virt-xml-validate "$domain" domain 2>&1) || { bad=$((bad + 1)); echo "$domain: $said"; }
			done
		done
	done
	if [ $bad = 0 ]; then ok "$count domains are valid by libvirt's schema"; else wrong "$bad of $count domains"; fi
else
	skip "libvirt's schema: there is no virt-xml-validate (apt-get install libvirt-clients)"
fi

for tool in qemu-system-x86_64 busybox cpio lstopo-no-graphics; do
	command -v $tool >/dev/null || { skip "guests from a plan: $tool is not installed"; finish; }
done
. tests/guests/find_kernel.sh
find_kernel || { skip "guests from a plan: no kernel image, installed or unpacked (scripts/guest-kernel)"; finish; }

root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys}
cp "$(command -v busybox)" "$root/bin/busybox"
cat >"$root/init" <<'END'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
cd /sys/devices/system/cpu
for cpu in cpu[0-9]*; do
	node=$(ls -d $cpu/node* | sed 's/.*node//')
	echo "SEEN $cpu socket $(cat $cpu/topology/physical_package_id) siblings $(cat $cpu/topology/thread_siblings_list) node $node"
done
cd ../node
for node in node[0-9]*; do echo "SEEN $node distances $(cat $node/distance)"; done
for device in /sys/bus/pci/devices/*; do
	[ "$(cat $device/vendor $device/device | tr -d '\n')" = 0x1af40x1110 ] && echo "SEEN pool on node $(cat $device/numa_node)"
done
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

# QEMU as the plan's script calls it, but for what this machine lacks: it has one node, and nobody to pin and continue.
mkdir "$work/bin"
qemu=$(command -v qemu-system-x86_64)
cat >"$work/bin/qemu-system-x86_64" <<END
#!/bin/bash
words=()
while [ \$# -gt 0 ]; do
	case \$1 in
	-S) ;;
	-qmp) shift ;;
	*host-nodes=*) words+=("\$(sed 's/host-nodes=[0-9]*/host-nodes=0/; s/,prealloc=on//' <<<"\$1")") ;;
	*) words+=("\$1") ;;
	esac
	shift
done
exec $qemu "\${words[@]}"
END
chmod +x "$work/bin/qemu-system-x86_64"

# guest WHAT MACHINE OPTIONS LINE...: the only guest of the plan reports each line.
guest() {
	local what=$1 machine=$2 options=$3
	shift 3
	# shellcheck disable=SC2086
	"$vshmem" plan --topology "synthetic:$machine" $options --pool 16M --as qemu --emulated >"$work/start" || { wrong "$what"; return; }
	pool=$(sed -n 's,.*mem-path=/dev/shm/vshmem.\([a-z0-9]*\)\,.*,\1,p' "$work/start" | head -1)
	# A pool of this run alone.
	sed -i "s,vshmem.$pool,vshmem.plan-test-$$,g" "$work/start"
	pool=plan-test-$$
	"$vshmem" pool create $pool --size 16M >/dev/null || { wrong "$what: no pool"; return; }
	PATH=$work/bin:$PATH timeout 240 sh "$work/start" -nographic -no-reboot -kernel "$image" -initrd "$work/initrd" \
		-append 'console=ttyS0 quiet panic=-1 no_timer_check mitigations=off' >"$work/seen" 2>&1 </dev/null
	"$vshmem" pool rm $pool >/dev/null
	pool=
	for line; do
		if tr -d '\r' <"$work/seen" | grep -q "SEEN $line\$"; then continue; fi
		wrong "$what: the guest does not report \`$line\`; it said:"
		tail -40 "$work/seen"
		return
	done
	ok "$what: $# lines as planned"
}
guest 'two sockets with threads in one guest of 8 vCPUs' 'package:2 [numa(memory=1073741824)] core:3 pu:2' '--guests 1' \
	'cpu0 socket 0 siblings 0-1 node 0' 'cpu2 socket 0 siblings 2-3 node 0' 'cpu4 socket 1 siblings 4-5 node 1' \
	'cpu7 socket 1 siblings 6-7 node 1' 'node0 distances 10 20' 'node1 distances 20 10' 'pool on node 0'
guest 'a pool on the second node' 'package:2 [numa(memory=1073741824)] core:3 pu:1' '--guests 1 --pool-numa 1' \
	'cpu1 socket 0 siblings 1 node 0' 'cpu3 socket 1 siblings 3 node 1' 'pool on node 1'
guest 'one socket without further threads' 'package:1 [numa(memory=1073741824)] core:4 pu:2' '--smt off' \
	'cpu0 socket 0 siblings 0 node 0' 'cpu2 socket 0 siblings 2 node 0' 'node0 distances 10' 'pool on node [-0-9]*'
finish
