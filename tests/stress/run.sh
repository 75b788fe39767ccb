#!/bin/sh
# Threads on a pool against a model of what they do:  run.sh VSHMEM [SECONDS [SEED]]
# A failure prints its seed, which repeats the dice, though not the timing.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 seconds=${2:-10}
pool=${POOL:-vshmem-stress-$$}
make -s -C tests/stress || exit 1
"$vshmem" pool create "$pool" --size 256M --mode 0666 >/dev/null || exit 1
trap '"$vshmem" pool rm "$pool" --force >/dev/null 2>&1' EXIT
passed=0 failed=0
verdict() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $2"; fi; }
"$vshmem" run --pool "$pool" -- build/stress/mappings "$seconds" ${3:+"$3"}
verdict $? mappings
# Who waits for ever has all signals blocked.
timeout -s KILL 60 "$vshmem" run --pool "$pool" -- build/stress/forks
verdict $? forks
timeout -s KILL 60 "$vshmem" run --pool "$pool" -- build/stress/handlers
verdict $? handlers
"$vshmem" pool check "$pool"
verdict $? "pool check"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
