#!/bin/sh
# Every script here on a pool of its own, and a table: run_all.sh VSHMEM-COMMAND [SECONDS]
vshmem=$1 seconds=${2:-30}
here=$(cd "$(dirname "$0")" && pwd)
logs=$(cd "$here/../.." && pwd)/build/third_party/logs
if [ ! -x "$vshmem" ]; then
	echo "usage: $0 VSHMEM-COMMAND [SECONDS]" >&2
	exit 2
fi
mkdir -p "$logs" || exit 1
pool=third-party-$$
failed=0
trap '"$vshmem" pool rm --force "$pool" >/dev/null 2>&1' EXIT
"$vshmem" pool create "$pool" --size 1G --mode 0666 >/dev/null || exit 1
prefix="$vshmem run --pool $pool --"

run() { # name, script, arguments behind the prefix
	name=$1 script=$2
	shift 2
	began=$(date +%s)
	"$here/$script" "$prefix" "$@" >"$logs/$name" 2>&1 </dev/null
	status=$?
	printf '%-12s %-36s %4d s\n' "$name" "$(tail -1 "$logs/$name")" $(($(date +%s) - began))
	if [ $status != 0 ]; then
		failed=1
		cat "$logs/$name"
	fi
}

run stress-ng run_stress_ng.sh "$seconds"
run sysv_ipc run_sysv_ipc.sh
run perl run_perl_ipc.sh
run util-linux run_util_linux.sh
run php run_php.sh
run fakeroot run_fakeroot.sh
run postgres run_postgres.sh "$seconds"
run open-mpi run_open_mpi.sh
prefix="$vshmem run --pool $pool --share all,posix --"
run posix_ipc run_posix_ipc.sh
run python run_python_multiprocessing.sh SharedMemory Lock Semaphore Condition
run boost run_boost_interprocess.sh
if "$vshmem" pool check "$pool" >"$logs/check" 2>&1; then
	echo "pool check: nothing wrong"
else
	failed=1
	cat "$logs/check"
fi
exit $failed
