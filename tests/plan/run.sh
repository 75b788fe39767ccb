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
		for how in "--guests per-socket" "--guests per-node --hugepages 2M --smt off" "--guests 1 --emulated --pool-numa ranges"; do
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

for tool in qemu-system-x86_64 busybox cpio lstopo-no-graphics python3; do
	command -v $tool >/dev/null || { skip "guests from a plan: $tool is not installed"; finish; }
done
. tests/guests/find_kernel.sh
find_kernel || { skip "guests from a plan: no kernel image, installed or unpacked (scripts/guest-kernel)"; finish; }

root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys}
cp "$(command -v busybox)" "$root/bin/busybox"
cp tests/plan/report "$root/init"
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

# guest WHAT TOPOLOGY OPTIONS: the only guest of the plan reports what the plan says.
guest() {
	local what=$1 topology=$2 options=$3
	# shellcheck disable=SC2086
	"$vshmem" plan --topology "$topology" $options --pool 16M --as json >"$work/plan" &&
		"$vshmem" plan --topology "$topology" $options --pool 16M --as qemu --emulated >"$work/start" || { wrong "$what"; return; }
	pool=$(sed -n 's,.*mem-path=/dev/shm/vshmem.\([a-z0-9]*\)\,.*,\1,p' "$work/start" | head -1)
	# A pool of this run alone.
	sed -i "s,vshmem.$pool,vshmem.plan-test-$$,g" "$work/start"
	pool=plan-test-$$
	"$vshmem" pool create $pool --size 16M >/dev/null || { wrong "$what: no pool"; return; }
	PATH=$work/bin:$PATH timeout 240 sh "$work/start" -nographic -no-reboot -kernel "$image" -initrd "$work/initrd" \
		-append 'console=ttyS0 quiet panic=-1 no_timer_check mitigations=off' >"$work/seen" 2>&1 </dev/null
	"$vshmem" pool rm $pool >/dev/null
	pool=
	if said=$(tests/plan/compare "$work/plan" "$work/seen"); then
		ok "$what: $said"
	else
		wrong "$what: $said; the guest said:"
		tail -40 "$work/seen"
	fi
}
# unlike FILE SED...: a machine of two sockets with threads, altered, with other distances than the usual.
unlike() {
	local file=$1
	shift
	lstopo-no-graphics --input 'package:2 [numa(memory=1073741824)] core:3 pu:2' --input-format synthetic --of xml |
		sed -e 's,</topology>,<distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os"><indexes length="4">0 1 </indexes><u64values length="12">10 31 31 10 </u64values></distances2>&,' "$@" >"$file"
}
# The second node has half of the memory.
unlike "$work/memory.xml" -e '/NUMANode" os_index="1"/s/local_memory="1073741824"/local_memory="536870912"/'
# The second socket has a core less, so that no regular set of sockets is left.
unlike "$work/cores.xml" -e '/type="Machine"/s/allowed_cpuset="0x00000fff"/allowed_cpuset="0x000003ff"/'

guest 'two sockets with threads in one guest of 8 vCPUs' 'synthetic:package:2 [numa(memory=1073741824)] core:3 pu:2' '--guests 1'
guest '8 vCPUs, nodes of different size and distance, the pool on the second' "xml:$work/memory.xml" '--guests 1 --pool-numa 1'
guest 'sockets of different size' "xml:$work/cores.xml" '--guests 1 --pool-numa 1'
guest 'one socket without further threads' 'synthetic:package:1 [numa(memory=1073741824)] core:4 pu:2' '--smt off'
finish
