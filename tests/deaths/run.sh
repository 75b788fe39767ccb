#!/bin/bash
# Kills some of many clients in many PID namespaces: those who wait for what they held go on, and nothing is left.
# What a death costs is counted by crates/vshmem_ipc/tests/crash/cost.rs.
#
#     [SIZE=1G] tests/deaths/run.sh VSHMEM [NAMESPACES CLIENTS KILLS]
cd "$(dirname "$0")/../.." || exit 1
vshmem=$(realpath "$1")
namespaces=${2:-64} clients=${3:-1000} kills=${4:-100}
if ! unshare --pid --mount --fork true 2>/dev/null; then
	echo "    SKIPPED: deaths in many namespaces: this user may not make PID namespaces"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
mkdir -p build/deaths
make -s -C tests/deaths || exit 1
pool=deaths-$$
trap '"$vshmem" pool rm "$pool" --force >/dev/null 2>&1' EXIT
failed=0
"$vshmem" pool create "$pool" --size "${SIZE:-1G}" --mode 0666 --limit domains=127 >/dev/null || exit 1
"$PWD/build/deaths/deaths" "$vshmem" "$pool" "$namespaces" "$clients" "$kills" || failed=1
# The host's agent sees the namespaces end; it is done when no client but itself is left.
for _ in {1..600}; do
	left=$("$vshmem" ls --pool "$pool" --json | grep -c '"state": "active"')
	[ "$left" != 0 ] || break
	sleep 0.1
done
[ "$left" = 0 ] || { echo "$left clients of namespaces that have ended are left"; failed=1; }
"$vshmem" pool check "$pool" || failed=1
echo "$((1 - failed)) passed, $failed failed, 0 skipped"
[ $failed = 0 ]
