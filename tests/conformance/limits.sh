#!/bin/sh
# Small limits, the same in an IPC namespace of the kernel's and in a pool: limits.sh PROBE 'VSHMEM COMMAND' POOL-NAME
# POOL-NAME must not exist yet. Needs root, and says so otherwise.
probe=$1 vshmem=$2 pool=$3
here=$(dirname "$0")
if [ ! -x "$probe" ] || [ -z "$pool" ]; then
	echo "usage: $0 PROBE 'VSHMEM COMMAND' POOL-NAME" >&2
	exit 2
fi
if ! unshare --ipc true 2>/dev/null; then
	echo "an IPC namespace needs root"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
trap '$vshmem pool rm --force "$pool" >/dev/null 2>&1' EXIT
$vshmem pool create "$pool" --size 16M --mode 0666 --limit shmmni=10 --limit shmmax=1048576 --limit shmall=1000 \
	--limit semmsl=6 --limit semmns=40 --limit semopm=5 --limit semmni=12 \
	--limit msgmni=7 --limit msgmax=2000 --limit msgmnb=5000 >/dev/null || exit 1
# A namespace with the same limits around both runs.
unshare --ipc sh -c '
	cd /proc/sys/kernel && echo 10 >shmmni && echo 1048576 >shmmax && echo 1000 >shmall && echo "6 40 5 12" >sem &&
	echo 7 >msgmni && echo 2000 >msgmax && echo 5000 >msgmnb && cd "$OLDPWD" && exec "$@"' sh \
	env EXPECTED_DIFFERENCES=/dev/null "$here/compare.sh" "$probe" "$vshmem run --pool $pool --" 'limits_*'
