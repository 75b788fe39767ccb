#!/bin/bash
# Many jobs of four processes, started and ended, some by the death of one: the pool is as it was.
#   cycles.sh VSHMEM [COUNT] [KILLED]     the `vshmem` command; 1000 jobs, 50 of them killed, when nothing else is said
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 name=vc$$
. tests/mpi/job.bash
free() { "$vshmem" pool ls --json | tr -d '\n ' | grep -o "\"name\":\"$name\"[^}]*"; }
before=$(free)
if cycles "${2:-1000}" "${3:-50}" && "$vshmem" pool check "$name" && "$vshmem" ls --pool "$name"; then
	echo "before: $before"
	echo "after:  $(free)"
	echo "1 passed, 0 failed"
else
	echo "0 passed, 1 failed"
	exit 1
fi
