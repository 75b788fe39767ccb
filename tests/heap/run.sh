#!/bin/bash
# `vshmem run --heap`: large allocations of unchanged programs in a pool.
#   run.sh VSHMEM [CHILDREN]     1,000 when nothing else is said
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 children=${2:-1000} name=heap$$ programs=build/heap
work=$(mktemp -d) user=65534
trap '"$vshmem" pool rm "$name" --force >/dev/null 2>&1; "$vshmem" pool rm "$name-open" --force >/dev/null 2>&1; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
. tests/checks.sh
make -s -C tests/heap || exit 1
"$vshmem" pool create "$name" --size 128M --mode 0600 >/dev/null && "$vshmem" pool create "$name-open" --size 64M --mode 0666 >/dev/null || exit 1
export POOL_FILE=vshmem.$name
heap() { timeout -k 5 300 "$vshmem" run --pool "$name" --heap "$@"; } # heap [OPTIONS...] -- COMMAND...
# The dead are reaped by the agent when it has seen them.
clean() {
	local try
	for try in $(seq 600); do
		"$vshmem" ls --pool "$name" --json >"$work/ls" && ! grep -q '"id":' "$work/ls" && break
		sleep 0.1
	done
	[ "$try" != 600 ] && "$vshmem" pool check "$name"
}
ok "every call that allocates" heap -- $programs/calls
ok "  with everything shared" heap --share all,posix -- $programs/calls
ok "  as one host" heap --one-host -- $programs/calls
ok "  and nothing is left" clean
ok "$children children beside threads that allocate" heap -- $programs/forks "$children"
ok "  with everything shared" heap --share all,posix -- $programs/forks 100
ok "  made by _Fork" heap -- $programs/forks 100 _Fork
ok "  and nothing is left" clean
# A quarter of the pool stays free for messages, windows and teams.
full() { heap -- $programs/full >"$work/said" && grep -q '^8[0-9] of 300 in the pool' "$work/said"; }
ok "a pool that is full" full
killed() { # Ten of them, each at another moment.
	local nth
	for nth in $(seq 10); do
		: >"$work/said"
		heap -- $programs/victim >"$work/said" &
		until grep -q going "$work/said"; do kill -0 $! || return 1; sleep 0.02; done
		kill -KILL "$(sed 's/going //' "$work/said")"
		wait $!
		clean || return 1
	done 2>/dev/null
}
ok "killed anywhere, and nothing is left" killed
ok "the size from which on" env VSHMEM_LOG= sh -c '"$0" run --pool "$1" --heap=1 -- true; [ $? = 2 ]' "$vshmem" "$name"
refused() { # refused WORDS-OF-VSHMEM...
	! "$vshmem" "$@" >"$work/said" 2>&1 && grep -q 'others than you may open .*--mode 0600' "$work/said"
}
ok "a pool that others may open is refused" refused run --pool "$name-open" --heap -- true
[ ! -e build/openmpi/mca_btl_vshmem.so ] || ok "  by mpi-env, too" refused mpi-env --pool "$name-open" --heap
[ ! -e build/libfabric/libvshmem-fi.so ] || ok "  by fabric-env, too" refused fabric-env --pool "$name-open" --heap
private() { # private POOL PART COMMAND...: the library itself finds the pool wanting
	local pool=$1 part=$2
	shift 2
	LD_PRELOAD=$(dirname "$(realpath "$vshmem")")/libvshmem_heap.so VSHMEM_LOG=1 VSHMEM_HEAP=65536 VSHMEM_HEAP_POOL=$pool \
		"$@" sh -c '"$0"/full; [ $? = 1 ]' "$programs" >"$work/said" 2>&1
	grep -q "the heap stays private: .*$part" "$work/said" && grep -q '^0 of 300' "$work/said"
}
ok "  by the library itself" private "$name-open" 'others than this user may open the pool' env
if [ "$(id -u)" = 0 ]; then
	ok "another user, who cannot open it" private "$name" 'permission denied' setpriv --reuid $user --clear-groups
	chown $user "/dev/shm/vshmem.$name-open" && chmod 600 "/dev/shm/vshmem.$name-open"
	ok "  root in one that is not its own" private "$name-open" 'others than this user' env
else
	skipped "another user (needs root)"
fi
if [ -e $programs/new ]; then ok "operator new" heap -- $programs/new; else skipped "operator new (no g++)"; fi
if [ -e $programs/allocate ]; then ok "Fortran's allocate" heap -- $programs/allocate; else skipped "Fortran's allocate (no gfortran)"; fi
numpy='import numpy, os
a = numpy.arange(1000000.0)
lies = [line for line in open("/proc/self/maps") if os.environ["POOL_FILE"] in line
        and int(line.split("-")[0], 16) <= a.ctypes.data < int(line.split()[0].split("-")[1], 16)]
pid = os.fork()
if pid == 0:
    a[:] = 1
    os._exit(0)
os.waitpid(pid, 0)
assert lies and a.sum() == 499999500000.0 and (a @ a) > 0'
for python in python3 /usr/bin/python3; do $python -c 'import numpy' 2>/dev/null && break; done
if $python -c 'import numpy' 2>/dev/null; then ok "numpy" heap -- "$python" -c "$numpy"; else skipped "numpy (not installed)"; fi
ok "at the end nothing is left" clean
echo "$passed passed, $failed failed"
[ $failed = 0 ]
