#!/bin/bash
# Stock Open MPI through a pool, between two network namespaces that it takes for two machines.
#   run.sh VSHMEM [CYCLES]     the `vshmem` command; jobs started and ended in the last case (default 10, a tenth of them killed)
# Ends with `N passed, N failed`. Without root or Open MPI it says that it is skipped.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 cycles=${2:-10}
skip() { echo "SKIPPED: MPI through a pool: $1"; echo "1 passed, 0 failed"; exit 0; }
command -v mpirun >/dev/null || skip "no mpirun here (openmpi-bin)"
[ -e build/openmpi/mca_btl_vshmem.so ] || skip "the components are not built (libopenmpi-dev)"
[ "$(id -u)" = 0 ] || skip "needs root, for network namespaces"
nodes=tests/mpi/nodes name=vm$$
$nodes up "$name" 2 2>build/mpi/nodes.log || { $nodes down "$name" 2; skip "no network namespaces here: $(tail -1 build/mpi/nodes.log)"; }
passed=0 failed=0 log=build/mpi/run.log
cleanup() {
	for node in 1 2; do ip netns pids "$name$node" 2>/dev/null | xargs -r kill -9 2>/dev/null; done
	$nodes down "$name" 2
	"$vshmem" pool rm "$name" --force >/dev/null 2>&1
	"$vshmem" pool rm "$name-small" --force >/dev/null 2>&1
}
trap cleanup EXIT
trap 'exit 130' INT TERM
"$vshmem" pool create "$name" --size 128M --mode 0666 >/dev/null || exit 1
"$vshmem" pool create "$name-small" --size 5M --mode 0666 >/dev/null || exit 1
eval "$("$vshmem" mpi-env --pool "$name")"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm_rsh_agent="$PWD/$nodes agent $name" OMPI_MCA_btl_vshmem_count=1
# Each namespace would bind its first process to the first CPU.
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_mapping_policy=node OMPI_MCA_rmaps_base_oversubscribe=1
hosts=$($nodes hosts "$name" 2 16)
mpi() { # mpi SECONDS WORDS-OF-MPIRUN...
	local limit=$1
	shift
	timeout -k 5 "$limit" $nodes run "$name" 1 mpirun -H "$hosts" "$@" >"$log" 2>&1 </dev/null
}
check() { # check NAME CONDITION...
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1)); echo "ok: $what"
	else
		failed=$((failed + 1)); echo "FAILED: $what"; tail -20 "$log"
	fi
}
through_pool() { grep -q 'vshmem: [1-9][0-9]* messages sent' "$log"; }
# No segment is left, nor anybody who uses one: the dead are buried by the domain's agent when it has seen them.
clean() {
	local try
	for try in $(seq 100); do
		"$vshmem" ls --pool "$name" --json >build/mpi/ls.json && ! grep -q '"id":' build/mpi/ls.json && break
		sleep 0.1
	done
	[ "$try" != 100 ] && "$vshmem" pool check "$name" >build/mpi/check.log 2>&1
}
passes() { mpi 120 "$@" && grep -q '[1-9][0-9]* passed, 0 failed' "$log"; }

for n in 2 4 8; do
	check "messages, $n processes" passes -np $n build/mpi/messages
	check "  went through the pool" through_pool
done
check "one-sided, 2 processes" passes -np 2 build/mpi/windows
check "one-sided, 4 processes" passes -np 4 build/mpi/windows
check "threads, 2 processes" passes -np 2 build/mpi/threads
check "threads, 4 processes" passes -np 4 build/mpi/threads
check "short lanes" passes -np 4 --mca btl_vshmem_port_bytes 65536 build/mpi/messages
check "the pool is clean" clean

# Rank 3 is killed in the middle of an exchange.
aborts() { mpi 60 -np 4 build/mpi/victim; [ $? != 0 ] && [ $? != 124 ] && grep -q 'exited on signal 9' "$log"; }
check "a killed process ends the job" aborts
check "  and leaves a clean pool" clean
check "  for the next job" passes -np 2 build/mpi/messages

falls_back() { passes -np 4 --mca btl_vshmem_pool "$name-small" build/mpi/threads && grep -q 'has no room for the' "$log"; }
check "a pool that is too small: a sentence, and the network" falls_back
no_pool() { passes -np 2 --mca btl_vshmem_pool "$name-absent" build/mpi/threads && grep -q 'go over the network' "$log"; }
check "no such pool: a sentence, and the network" no_pool

starts_and_ends() {
	local nth
	for nth in $(seq "$cycles"); do
		if [ $((nth % 10)) = 5 ]; then
			aborts || { echo "cycle $nth: was to be killed"; return 1; }
		else
			passes -np 4 build/mpi/brief || { echo "cycle $nth"; return 1; }
		fi
	done
	clean
}
check "$cycles jobs, one in ten killed: a clean pool" starts_and_ends
echo "$passed passed, $failed failed"
[ $failed = 0 ]
