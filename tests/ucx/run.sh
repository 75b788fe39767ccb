#!/bin/bash
# Stock UCX between two domains: its shared memory lies in the pool, under `vshmem run --one-host`.
#   run.sh VSHMEM uml|qemu       checks between two guests, MPICH and OpenSHMEM over UCX among them
#   run.sh VSHMEM containers     between two sets of namespaces
#   run.sh VSHMEM figures        latency between the guests, in one kernel, and by UCX's TCP between the guests, interleaved; then MPICH's
# KILLS=N: so many processes are killed. UCX_LIBRARY=DIRECTORY: where another build of UCX lies than this machine's own.
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 mode=${2:-uml} name=ucx$$ kills=${KILLS:-20} bytes=512M
. tests/checks.sh
programs=$PWD/build/ucx
if [ ! -x "$programs/tags" ]; then
	skipped "UCX: build/ucx/tags is not there (libucx-dev; make -C tests/ucx)"
	echo "$passed passed, $failed failed"
	exit
fi
places=$([ "$mode" = figures ] && echo uml || echo "$mode")
. tests/places.bash

ucx=(UCX_TLS=shm,self UCX_LOG_LEVEL=warn ${UCX_LIBRARY:+LD_LIBRARY_PATH=$UCX_LIBRARY})
# With these options of `vshmem run` in both domains: pair OPTIONS MODE...
pair() {
	local options=$1 status
	shift
	inside 1 env "${ucx[@]}" timeout -s KILL 400 $run $options -- "$programs/tags" 99 serve >"$log.serve" 2>&1 &
	inside 2 env "${ucx[@]}" timeout -s KILL 400 $run $options -- "$programs/tags" 99 "$@" >"$log" 2>&1
	status=$?
	wait $!
	clear
	return $status
}
streams() {
	local before=$(received)
	pair --one-host stream 1073741824 && grep -q '^equal: 1073741824 bytes' "$log" && [ $(($(received) - before)) -lt 1000000 ]
}
refused() { ! pair "" latency 8 1000 && grep -q 'unreachable' "$log"; }
# At any moment from its start on, with and without a peer.
killed() {
	local place
	for place in 1 2; do
		inside $place env "${ucx[@]}" bash -c '
			for i in $(seq '$((kills / 2))'); do
				timeout -s KILL 0.$((RANDOM % 700 + 200)) '"$run"' --one-host -- '"$programs/tags"' $((i + 100)) '"$([ $place = 1 ] && echo serve || echo forever)"'
			done >/dev/null 2>&1' &
	done
	wait $(jobs -p | grep -vx "$host")
	# Segments of processes that were killed between shmget and IPC_RMID stay, as ever.
	clear
	is_empty
}
# launched LAUNCHER PROGRAM...: a rank in each guest.
launched() {
	inside 1 env "${ucx[@]}" SHMEM_SYMMETRIC_HEAP_SIZE=8M HYDRA_LAUNCHER=rsh HYDRA_LAUNCHER_EXEC=vshmem "HYDRA_LAUNCHER_EXTRA_ARGS=lab exec --shell" \
		"OMPI_MCA_plm_rsh_agent=vshmem lab exec --shell" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		timeout -k 5 120 "$@" >"$log" 2>&1
	grep -q '^[1-9][0-9]* passed, 0 failed' "$log"
}

# Lines of WHO MICROSECONDS: the median of each, smallest and largest.
medians() {
	sort -k1,1 -k2,2n | awk '{ all[$1, ++n[$1]] = $2 }
		END { for (who in n) printf "%-16s %9.3f us, %.3f to %.3f, of %d\n", who, all[who, int((n[who] + 1) / 2)], all[who, 1], all[who, n[who]], n[who] }' | sort
}
# One way of 8 B and of 1 MiB, out of what bench/mpi/pairs.c prints: mpich WHO
mpich() { awk -v who="mpich-$1" '$1 == "pingpong" && $3 == "private" && ($2 == 8 || $2 == 1048576) { print who "-" $2, $4 / 1000 }' "$log"; }

if [ "$mode" = figures ]; then
	size=${BYTES:-8}
	for _ in $(seq "${ROUNDS:-11}"); do
		pair --one-host latency $size 100000 && echo "guests $(cat "$log")"
		(export "${ucx[@]}"; "$programs/tags" $$ serve & "$programs/tags" $$ latency $size 100000; wait; ipcrm -Q $$) | sed 's/^/kernel /'
		(ucx=(UCX_TLS=tcp,self "${ucx[@]:1}"); pair --one-host latency $size 200 && echo "tcp $(cat "$log")")
	done | medians
	between=(mpiexec.mpich -hosts guest1,guest2 -n 2)
	for _ in $(seq "${MPICH_ROUNDS:-${ROUNDS:-11}}"); do
		launched "${between[@]}" vshmem run --one-host -- "$programs/mpich_pairs" quick
		mpich guests
		mpiexec.mpich -n 2 "$programs/mpich_pairs" quick >"$log" 2>&1
		mpich kernel
		(ucx=(UCX_TLS=tcp,self "${ucx[@]:1}"); launched "${between[@]}" "$programs/mpich_pairs" quick)
		mpich tcp
	done | medians
	exit
fi
check "without --one-host UCX finds its peer unreachable" refused
check "messages, looked at" pair --one-host latency 8 20000
check "1 GiB, by hash, past the network" streams
check "  nothing is left" is_empty
check "$kills processes killed" killed
if [ "$places" != containers ]; then
	[ -x "$programs/mpich_messages" ] || skipped "MPICH over UCX: not built (libmpich-dev)"
	[ ! -x "$programs/mpich_messages" ] || check "MPICH: messages" launched mpiexec.mpich -hosts guest1,guest2 -n 2 vshmem run --one-host -- "$programs/mpich_messages"
	[ -x "$programs/heap" ] || skipped "OpenSHMEM over UCX: not built (libopenmpi-dev)"
	# In shmem_finalize Debian's is ended by SIGSEGV, in one kernel too; what was looked at is printed before.
	[ ! -x "$programs/heap" ] || check "OpenSHMEM: put, get, atomics" launched oshrun -H guest1,guest2 -np 2 --mca spml ucx --mca pml ob1 \
		-x UCX_TLS -x SHMEM_SYMMETRIC_HEAP_SIZE vshmem run --one-host -- "$programs/heap"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
