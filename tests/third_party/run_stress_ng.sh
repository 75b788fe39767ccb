#!/bin/sh
# stress-ng's System V stressors, each verifying what it reads back: run_stress_ng.sh ['CMD PREFIX' [SECONDS]]
prefix=$1 seconds=${2:-5}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${BUILD:-$root/build/third_party}/stress_ng
passed=0 failed=0

if ! command -v stress-ng >/dev/null; then
	echo "stress-ng is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
mkdir -p "$work" || exit 1

try() {
	# A run that hangs is a failure too: half a minute beyond its own time.
	if timeout -k 5 $((seconds + 30)) $prefix stress-ng "$@" --verify --timeout "$seconds" --metrics-brief \
		--temp-path "$work" >"$work/log" 2>&1; then
		passed=$((passed + 1))
		grep -E 'bogo ops|successful|shm-sysv|sem-sysv|msg  ' "$work/log" | grep -E '[0-9]{2,}\.[0-9]{2}' | head -3
	else
		failed=$((failed + 1))
		echo "FAILED stress-ng $*"
		cat "$work/log"
	fi
}

try --shm-sysv 2
try --sem-sysv 2
try --msg 2
try --shm-sysv 1 --sem-sysv 1 --msg 1
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
