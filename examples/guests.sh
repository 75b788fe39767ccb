#!/bin/bash
# The counter of two unchanged programs in two guests, Fortran's in one and Python's in the other: guests.sh BUILD VSHMEM
# Ends with `N passed, N failed`. PYTHON: one that has sysv_ipc.
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) vshmem=$2 lab=examples-$$
. "$here/python.sh"
skip() { echo "SKIPPED: Fortran and Python in two guests: $1"; echo "1 passed, 0 failed"; exit 0; }
case $build in /tmp/* | /run/* | /root/*) skip "this tree lies in $build, and guests have a /tmp, /run and /root of their own" ;; esac
[ -x "$build/counter" ] || skip "there is no gfortran (apt-get install gfortran)"
[ -n "$python" ] || skip "there is no Python with sysv_ipc (apt-get install python3-sysv-ipc)"
[ "$(id -u)" = 0 ] || skip "guests need root"
command -v linux.uml >/dev/null || command -v linux >/dev/null || skip "there is no User Mode Linux (scripts/setup guests)"
log=$(mktemp) || exit 1
trap '"$vshmem" lab --name $lab down >/dev/null 2>&1; rm -f "$log"' EXIT
"$vshmem" lab --name $lab up --guest uml -n 2 >"$log" 2>&1 || { cat "$log"; echo "0 passed, 1 failed"; exit 1; }
in_guest() { # in_guest N COMMAND...: on the lab's pool
	timeout 60 "$vshmem" lab --name $lab exec "$1" -- vshmem run "${@:2}" 2>&1
}
first=$(in_guest 1 "$build/counter" 5)
second=$(in_guest 2 "$python" "$here/python/counter.py" 7)
third=$(in_guest 1 "$build/counter" 1)
if [ "$first, $second, $third" = "the counter is 5, the counter is 12, the counter is 13" ]; then
	echo "1 passed, 0 failed"
else
	printf 'FAILED: Fortran and Python in two guests: %s\n' "$first" "$second" "$third"
	echo "0 passed, 1 failed"
	exit 1
fi
