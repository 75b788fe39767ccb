#!/bin/bash
# libvshmem used wrongly and at bad moments: tests/library/run.sh VSHMEM [STEPS]
# STEPS is at how many instructions a signal is tried. Ends with `N passed, N failed`.
vshmem=$1 steps=${2:-20} passed=0 failed=0 pool=vshmem-library-$$
if [ -z "$vshmem" ]; then
	echo "usage: $0 VSHMEM [STEPS]" >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
vshmem=$(realpath "$vshmem")
programs=${BUILD:-$here/../../build/library}
make -s -C "$here" BUILD="$programs" BIN_DIR="$(dirname "$vshmem")" || exit 1
trap 'for one in "$pool" "$pool-2"; do "$vshmem" pool rm "$one" --force >/dev/null 2>&1; done' EXIT
for one in "$pool" "$pool-2"; do "$vshmem" pool create "$one" --size 32M >/dev/null || exit 1; done
export VSHMEM_COMMAND=$vshmem
ok() { # ok WHAT COMMAND...: it succeeds, and the pool is whole
	local what=$1
	shift
	if timeout -k 5 120 "$@" </dev/null && "$vshmem" pool check "$pool" >/dev/null; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1)); echo "FAILED: $what"
	fi
}
ok "handles that are none" "$programs/handles" "$pool"
ok "the same in a static program" "$programs/handles_static" "$pool"
ok "children of a process that opens and closes" "$programs/forked" "$pool" "$pool-2"
ok "a storm of signals" "$programs/storm" "$pool"
ok "a signal at every instruction before a sleep" "$vshmem" run --pool "$pool" -- env VSHMEM_SPIN=0 "$programs/step" "$steps"
left=$("$vshmem" ls --pool "$pool" --json | grep -c '"key": "0x')
ok "no object is left" [ "$left" = 0 ]
echo "$passed passed, $failed failed"
[ $failed = 0 ]
