#!/bin/bash
# xl itself reads the configurations of plans, in dom0 of an emulated Xen: each is a dry run of `xl create`, which checks the words,
# the virtual nodes (their CPUs, sizes and distances), and starts nothing. The emulated machine has one node and one CPU, and xl refuses
# others, so the numbers of the host's nodes and CPUs are replaced; a kernel is added, as the plan leaves it to the user.
#   tests/plan/xen.sh VSHMEM [MACHINE...]
# As root; some 2 s for each machine. The last line counts; skips loudly where Xen is not unpacked (scripts/setup guests xen).
set -u
vshmem=$(realpath "${1:-target/release/vshmem}")
shift
cd "$(dirname "$0")/../.." || exit 1
[ -x "${VSHMEM_LAB_XEN:-/var/lib/vshmem/xen}/files/usr/sbin/xl" ] && [ "$(id -u)" = 0 ] || {
	echo "    SKIPPED: xl: Xen is not unpacked (scripts/setup guests xen), or not root"
	echo "1 passed, 0 failed"
	exit 0
}
machines=crates/vshmem_plan/tests/machines
[ $# -gt 0 ] || set -- $(basename -s .xml "$machines"/*.xml)
work=$(mktemp -d)
lab=plan-xen-$$
trap '"$vshmem" lab down --name "$lab" >/dev/null 2>&1; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
. tests/checks.sh

# A guest over the whole machine has the most virtual nodes.
mkdir "$work/plans"
for machine; do
	"$vshmem" plan --topology "xml:$machines/$machine.xml" --guests 1 --pool 64M --as xl >"$work/plan" || exit 1
	sed 's/pnode=[0-9]*/pnode=0/g; /^cpus/s/"[0-9]*"/"0"/g; s/^vcpus = \(.*\)/&\nmaxvcpus = \1/; $a kernel = "/vmlinuz"' \
		"$work/plan" >"$work/plans/$machine.cfg"
done

# accepted MACHINE: xl's own reading has the plan's vCPUs and nodes.
accepted() {
	local said=$work/$1.said vcpus nodes
	tar c -C "$work/plans" "$1.cfg" | timeout 120 "$vshmem" lab exec --name "$lab" 0 -- \
		/bin/sh -c "cd /tmp && tar x && xl -N create $1.cfg" >"$said" 2>&1 || { cat "$said"; return 1; }
	vcpus=$(sed -n 's/^vcpus = //p' "$work/plans/$1.cfg")
	nodes=$(grep -o 'pnode=' "$work/plans/$1.cfg" | wc -l)
	grep -q "\"max_vcpus\": $vcpus," "$said" && [ "$(grep -c '"memkb":' "$said")" = "$nodes" ] || {
		echo "xl read another number of vCPUs than $vcpus, or of nodes than $nodes"; grep -v '^ *[][0-9,{}]*$' "$said"; return 1; }
}

"$vshmem" lab up --guest xen --name "$lab" -n 1 >"$work/up" 2>&1 || { cat "$work/up"; exit 1; }
for machine; do ok "xl takes the plan of $machine" accepted "$machine"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
