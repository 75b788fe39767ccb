#!/bin/sh
# Runs one of these scripts so that two more things are seen: that its programs made no object in the kernel (as root in an IPC
# namespace of their own, because others on this machine make objects, too), and that the pool agrees with itself afterwards.
#   watched.sh VSHMEM POOL SCRIPT [ARGUMENT...]     SCRIPT gets the words that run a program on the pool, and then the arguments
vshmem=$1 pool=$2 script=$3
if [ "$(id -u)" = 0 ] && [ -z "${WATCHED:-}" ]; then
	WATCHED=yes exec unshare --ipc "$0" "$@"
fi
shift 3
"$script" "$vshmem run --pool $pool --" "$@" || exit
if [ -n "${WATCHED:-}" ] && tail -qn +2 /proc/sysvipc/* | grep .; then
	echo "these objects are left in the kernel: not all calls went to the pool"
	exit 1
fi
"$vshmem" pool check "$pool"
