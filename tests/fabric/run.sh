#!/bin/bash
# Everything over libfabric's provider: fi_info, fi_pingpong, the project's own programs, Open MPI, MPICH, Intel MPI, between two
# network namespaces that they take for two machines.
#   run.sh VSHMEM [all|quick]     quick: two processes, once each
#   FABRIC=shm|tcp run.sh ...     the same over libfabric's own providers, to see what is the library's and what is ours
# Ends with `N passed, N failed`. Without root or the provider it says that it is skipped; so it does for each library that is not there.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 amount=${2:-all} name=vf$$
. tests/fabric/job.bash
. tests/checks.sh

# libfabric's own programs.
shows() { inside gasnet 20 fi_info -p vshmem && grep -q 'provider: vshmem' "$log" && grep -q 'FI_EP_RDM' "$log"; }
silent() {
	local alone=(env -u VSHMEM_POOL FI_PROVIDER_PATH="$PWD/build/libfabric" timeout 20)
	"${alone[@]}" fi_info >"$log" 2>&1 && grep -q 'provider: tcp' "$log" && ! grep -q vshmem "$log" &&
		! "${alone[@]}" fi_info -p vshmem >"$log" 2>&1 && [ "$(wc -l <"$log")" = 1 ]
}
pingpong() {
	local lines server status
	mapfile -t lines < <(words gasnet)
	timeout 60 $nodes run "$name" 1 env "${lines[@]}" fi_pingpong -c -e rdm "$@" >"$log.server" 2>&1 &
	server=$!
	for _ in $(seq 100); do $nodes run "$name" 1 ss -ltn 2>/dev/null | grep -q ':47592' && break; sleep 0.1; done
	timeout 60 $nodes run "$name" 2 env "${lines[@]}" fi_pingpong -c -e rdm "$@" "$first" >"$log" 2>&1
	status=$?
	wait $server && [ $status = 0 ] && grep -q '^1m ' "$log" || { cat "$log.server" >>"$log"; return 1; }
}
if ! command -v fi_info >/dev/null; then
	skipped "no fi_info and fi_pingpong here (libfabric-bin; scripts/setup fabric)"
elif [ "$fabric" = vshmem ]; then
	check "fi_info shows the provider" shows
	check "  without the pool: nothing, and other providers as ever" silent
	check "fi_pingpong, every byte looked at" pingpong -p vshmem -S all
	in_heap() { FABRIC_POOL=$name-mine FABRIC_HEAP=--heap=4K "$@"; }
	"$vshmem" pool create "$name-mine" --size 256M --mode 0600 >/dev/null || exit 1
	check "  with its memory in the pool" in_heap pingpong -p vshmem -S all
fi

if [ -e build/fabric/calls ] && [ "$fabric" = vshmem ]; then
	calls() { inside gasnet 60 env "$@" build/fabric/calls && ! grep -q '[1-9][0-9]* failures' "$log"; }
	check "every call of the provider" calls
	check "  without cross-memory attach" calls FI_VSHMEM_CMA=0
	check "  with it for all long messages" calls FI_VSHMEM_CMA=1
	[ ! -e "/dev/shm/vshmem.$name-mine" ] || check "  with large allocations in the pool" in_heap calls FI_VSHMEM_CMA=0
	check "  cross-memory attach: another user, a sender that is gone" passes inside gasnet 60 build/fabric/cross_memory
	check "  announcements that another member forges" passes inside gasnet 60 env VSHMEM_POOL="$name" build/fabric/forged
	check "  a peer that is killed" passes inside gasnet 60 build/fabric/killed
fi
if [ -e build/fabric/one_sided ] && [ "$fabric" = vshmem ]; then
	# A member that writes into others' records, and the processes that sleep, open the pool by its name.
	regions() { passes inside gasnet 100 env VSHMEM_POOL="$name" build/fabric/one_sided "$@"; }
	check "one-sided: pool memory, private memory, hostile records, a killed owner" regions
	# They leave a semaphore set behind, which all processes of a pool share.
	"$vshmem" pool create "$name-small" --size 64M --mode 0666 >/dev/null
	sleeps() { FABRIC_POOL=$name-small passes inside gasnet 60 build/fabric/sleeps; }
	check "processes that sleep at a descriptor" sleeps
	"$vshmem" pool rm "$name-small" --force >/dev/null
fi
# The calls of GASNet-EX and of Sandia OpenSHMEM, and all others.
if [ -e build/fabric/messages ]; then
	for n in $([ "$amount" = quick ] && echo 2 || echo 2 5); do
		for program in messages memory atomics threads gasnet shmem; do
			check "$program, $n processes" ours 120 "$n" $program
		done
		[ "$fabric" != vshmem ] || check "shmem, $n processes, the heap in the pool" ours 120 "$n" shmem pool
	done
	[ "$amount" = quick ] || check "more than 4 GiB in a message" ours 120 2 messages huge
	# Where their waits were not yields, these took minutes.
	check "threads, 24 of each of 2 processes" ours 120 2 threads 24
	if [ "$fabric" = vshmem ]; then
		few() { FI_VSHMEM_PEERS=8 ours 120 "$@"; }
		check "20 endpoints of each process, and ports with 8 lanes" few 2 contexts
		check "one that closes: what lies there is done" ours 60 2 leaving done
		check "  what it has sent arrives" ours 60 2 leaving sent
		check "  it is told from one that has died" ours 60 2 leaving closed
		check "  its answers count when it has ended" ours 60 2 leaving answered
	fi
else
	skipped "the programs over libfabric are not built (libfabric-dev; scripts/setup fabric)"
fi

mpi_programs() { # mpi_programs LIBRARY DIRECTORY
	local n program
	for n in $([ "$amount" = quick ] && echo 2 || echo 2 4); do
		for program in messages collectives windows threads; do
			# Threads that are the first to talk to a process wait in PMIx_Get for ever now and then, over other providers as well.
			[ "$1,$program" != openmpi5,threads ] || continue
			# osc/pt2pt, the one for windows without a BTL, refuses threads.
			check "$1: $program, $n processes" passes "$1" 200 "$n" "$2/$program" $([ "$1,$program" != openmpi,collectives ] || echo one)
		done
	done
}
if command -v mpirun >/dev/null && [ -e build/mpi/messages ]; then
	mpi_programs openmpi build/mpi
	one_sided() { passes openmpi 200 2 --mca pml ob1 --mca btl ofi,tcp,self --mca osc rdma --mca osc_rdma_btls ofi --mca btl_ofi_provider_include "${OFI:-vshmem}" build/mpi/windows; }
	check "openmpi: windows by btl/ofi" one_sided
else
	skipped "Open MPI over libfabric: no mpirun here (openmpi-bin, libopenmpi-dev)"
fi
if [ -x build/fabric/openmpi5/bin/mpirun ] && [ -e build/fabric/ompi5/messages ]; then
	# From the working directory of each process.
	mpi_programs openmpi5 "$PWD/build/fabric/ompi5"
else
	skipped "Open MPI 5: PyPI's wheel is not in build/fabric (scripts/setup fabric)"
fi
if [ -x build/fabric/mpich/bin/mpiexec ]; then
	mpi_programs mpich build/fabric/abi
	check "mpich: accumulates" passes mpich 200 2 build/fabric/abi/accumulates
else
	skipped "MPICH: PyPI's wheel is not in build/fabric (scripts/setup fabric)"
fi
if [ -x build/fabric/impi/bin/mpiexec.hydra ] && [ -e build/fabric/abi/messages ]; then
	mpi_programs intel build/fabric/abi
	tables() { intel 200 2 "$venvs/impi/bin/$1" -time 0.2 -msglog 0:18 "${@:2}" && grep -q 'All processes entering MPI_Finalize' "$log" && [ "$(grep -c '^ *[0-9]\+ .*[0-9]' "$log")" -gt 20 ]; }
	# With its own shared memory between the processes of a kernel, every other run delivered wrong bytes here.
	beside_a_busy_cpu() {
		local status busy
		# It ends by itself where this script is killed.
		timeout 300 nice -n 19 sh -c 'while :; do :; done' &
		busy=$!
		"$@"
		status=$?
		kill $busy
		return $status
	}
	[ "$amount" = quick ] || check "intel: collectives, 4 processes beside one that computes" beside_a_busy_cpu passes intel 200 4 build/fabric/abi/collectives
	check "intel: IMB-MPI1" tables IMB-MPI1 PingPong Sendrecv Exchange Bcast Allreduce Alltoall Allgather Barrier
	check "intel: IMB-RMA" tables IMB-RMA Unidir_put Unidir_get Bidir_put Accumulate Fetch_and_op
else
	skipped "Intel MPI: PyPI's wheel is not in build/fabric (scripts/setup fabric)"
fi
[ "$fabric" != vshmem ] || check "the pool is clean" clean
echo "$passed passed, $failed failed"
[ $failed = 0 ]
