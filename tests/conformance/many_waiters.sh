#!/bin/sh
# More waiters than a pool has thread slots, compared with the kernel: many_waiters.sh PROBE 'VSHMEM COMMAND' POOL-NAME
# POOL-NAME must not exist yet.
probe=$1 vshmem=$2 pool=$3
here=$(dirname "$0")
if [ ! -x "$probe" ] || [ -z "$pool" ]; then
	echo "usage: $0 PROBE 'VSHMEM COMMAND' POOL-NAME" >&2
	exit 2
fi
trap '$vshmem pool rm --force "$pool" >/dev/null 2>&1' EXIT
$vshmem pool create "$pool" --size 16M --mode 0666 --limit threads=16 --limit clients=16 >/dev/null || exit 1
EXPECTED_DIFFERENCES=/dev/null SECONDS_EACH=${SECONDS_EACH:-60} "$here/compare.sh" "$probe" \
	"$vshmem run --pool $pool --share all,posix --" 'many_waiters_*'
