#!/bin/bash
# Teams in segments of the kernel and of a pool.
#   run.sh VSHMEM     the `vshmem` command
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 name=vt$$ passed=0 failed=0
trap '"$vshmem" pool rm "$name" --force >/dev/null 2>&1' EXIT
trap 'exit 130' INT TERM
"$vshmem" pool create "$name" --size 64M >/dev/null || exit 1
check() { # check NAME COMMAND...
	local what=$1
	shift
	if timeout 300 "$@"; then
		passed=$((passed + 1)); echo "ok: $what"
	else
		failed=$((failed + 1)); echo "FAILED: $what"
	fi
}
for under in "" "$vshmem run --pool $name --"; do
	where=${under:+pool}; where=${where:-kernel}
	for n in 1 2 3 8; do check "$where: $n members" $under build/team/team work $n; done
	check "$where: a killed member" $under build/team/team killed 4
	check "$where: a member that never comes" $under build/team/team late
done
# What a process held that has ended is given back by the agent.
is_clean() {
	for _ in $(seq 600); do
		"$vshmem" ls --pool "$name" --json | grep -q '"id":' || break
		sleep 0.1
	done
	"$vshmem" pool check "$name" >/dev/null && ! "$vshmem" ls --pool "$name" --json | grep -q '"id":'
}
if is_clean; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: the pool is clean"; fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
