#!/bin/bash
# Record locks of 64 processes in two domains, with random kills, against a model: model.c.
#   run.sh VSHMEM containers|uml [GRANTS]     so many locks are granted in all
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 places=$2 grants=${3:-20000} name=locks$$
. tests/checks.sh
make -s -C tests/locks || exit 1
model=$PWD/build/locks/model
bytes=64M
. tests/places.bash
both() {
	local pids=() place status=0
	for place in 1 2; do
		inside $place timeout -s KILL 500 $run --share all,posix -- "$model" /model $(((place - 1) * 32)) 32 "$grants" $place >"$log.$place" 2>&1 &
		pids+=($!)
	done
	for place in "${pids[@]}"; do wait $place || status=1; done
	cat "$log".[12] >"$log"
	return $status
}
granted_once() { both && [ "$(grep -c ' 0 double grants' "$log")" = 2 ]; }
is_clean() { "$vshmem" pool check $name >"$log" 2>&1; }
check "$grants grants to 64 processes in two domains, none of them double" granted_once
grep -h grants "$log.1"
check "the pool is consistent" is_clean
echo "$passed passed, $failed failed"
[ $failed = 0 ]
