#!/bin/bash
# Stock Open MPI through a pool, between two network namespaces that it takes for two machines.
#   run.sh VSHMEM [CYCLES]     the `vshmem` command; jobs started and ended in the last case (default 10, a tenth of them killed)
# Ends with `N passed, N failed`. Without root or Open MPI it says that it is skipped.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 cycles=${2:-10} name=vm$$
. tests/mpi/job.bash
. tests/checks.sh
through_pool() { grep -q 'vshmem: [1-9][0-9]* messages sent' "$log"; }

for n in 2 4 8; do
	check "messages, $n processes" passes -np $n build/mpi/messages
	check "  went through the pool" through_pool
done
# On fewer CPUs than processes, too.
by_teams() { grep -q 'vshmem: [1-9][0-9]* collective calls by [1-9][0-9]* teams' "$log"; }
export OMPI_MCA_coll_vshmem_count=1 OMPI_MCA_coll_vshmem_after=0
for n in 2 4 8; do
	check "collective calls, $n processes" passes -np $n build/mpi/collectives
	check "  went by teams in the pool" by_teams
	check "blocks and nonblocking calls, $n processes" passes -np $n build/mpi/blocks
	check "  went by teams in the pool" by_teams
done
check "  in pieces, longer ones too" passes -np 4 --mca coll_vshmem_piece_bytes 100 --mca coll_vshmem_max_bytes 100000 build/mpi/collectives
check "  and blocks of these" passes -np 4 --mca coll_vshmem_piece_bytes 1000 --mca coll_vshmem_max_bytes 20000 build/mpi/blocks one
unset OMPI_MCA_coll_vshmem_after
check "  without threads, and some by messages first" passes -np 4 build/mpi/collectives one
check "  went by teams in the pool" by_teams
differ() { passes -np 4 sh -c 'OMPI_MCA_coll_vshmem_max_bytes=$((1000 + OMPI_COMM_WORLD_RANK / 2 * 1000)) exec build/mpi/collectives' && ! by_teams; }
check "  with parameters that differ: by messages" differ
without() { passes -np 2 --mca btl tcp,self build/mpi/threads && ! by_teams; }
check "  where messages do not go through the pool: neither do they" without
export OMPI_MCA_coll_vshmem_count=0
check "one-sided, 2 processes" passes -np 2 build/mpi/windows
check "one-sided, 4 processes" passes -np 4 build/mpi/windows
in_pool() { [ "$(grep -c 'vshmem: [1-9][0-9]* windows in the pool' "$log")" = "$1" ]; }
export OMPI_MCA_osc_vshmem_count=1
for n in 2 4; do
	check "every one-sided call, $n processes" passes -np $n build/mpi/window_calls across
	check "  on windows in the pool" in_pool $n
	check "  with data of every layout" passes -np $n build/mpi/window_layouts
done
apart() { passes -np 4 sh -c 'OMPI_MCA_osc_vshmem_direct=$((OMPI_COMM_WORLD_RANK < 3)) exec build/mpi/windows' && in_pool 0; }
check "  with parameters that differ: by messages" apart
export OMPI_MCA_osc_vshmem_count=0
check "one-sided, many at once" passes -np 2 build/mpi/puts 60000
check "accumulates of every kind, 3 processes: right, or refused" passes -np 3 build/mpi/accumulates
check "  none refused in the pool" grep -q 'MPI_Alloc_mem 0, MPI_Win_allocate 0' "$log"
# Of 5.0 without its osc/sm, whose MPI_Raccumulate gets pairs of MPI_SHORT_INT wrong.
check "  within a machine" passes -np 2 --map-by ppr:2:node $(mpirun --version | grep -q ' 4[.]' || echo --mca osc ^sm) build/mpi/accumulates
# Who shares the CPUs is in another container: three processes on two must give them away all the same.
each_gives_way() { [ "$(grep -c 'the CPU given away [1-9]' "$log")" = "${1:-0}" ]; }
contained() { NODES_CONTAINERS=1 passes -np $(($(nproc) + 1)) build/mpi/windows && each_gives_way $(($(nproc) + 1)); }
check "one-sided in containers: they know who else is on their CPUs" contained
# mpirun of 5.0.7 writes into memory that it has freed when processes are spawned, and may crash when they have ended (Valgrind shows
# it without these components, too).
spawns() { passes -np 2 build/mpi/spawn || { grep -q '^1 passed, 0 failed' "$log" && grep -q '^free()\|^double free\|^corrupted\|^malloc' "$log" && through_pool; }; }
check "processes that are spawned later" spawns
check "threads, 2 processes" passes -np 2 build/mpi/threads
check "threads, 4 processes" passes -np 4 build/mpi/threads
# Crowded: 32 for each CPU of two. They share what the pool has.
check "messages, 64 processes" passes -np 64 build/mpi/messages
check "  went through the pool" through_pool
check "short lanes" passes -np 4 --mca btl_vshmem_port_bytes 65536 build/mpi/messages
bad_word() { passes -np 2 --mca btl_vshmem_port_bytes abc --mca coll_vshmem_after 3x build/mpi/brief && grep -q 'btl_vshmem_port_bytes=abc: not a number' "$log" && grep -q 'coll_vshmem_after=3x: not a number' "$log"; }
check "a parameter that is no number: a sentence that names it" bad_word
check "one-sided, each of many costs what one costs; hostile messages" make -s -C openmpi check
for program in messages collectives blocks windows "window_calls across" window_layouts accumulates threads spawn; do
	# shellcheck disable=SC2086 # words of a command
	check "with large allocations in the pool: ${program% *}" with_heap 4K passes -np 4 -x PATH build/mpi/$program
done
check "  a process that is killed ends the job" with_heap 4K aborts
check "the pool is clean" clean

check "a killed process ends the job" aborts
check "  and leaves a clean pool" clean
check "  for the next job" passes -np 2 build/mpi/messages
check "a process that is killed with a window locked ends the job" aborts lock
check "a process that is killed where all wait in a window ends the job" aborts fence
check "  and leaves a clean pool" clean
orphan() { mpi 120 -np 2 --enable-recovery build/mpi/orphan; grep -q '1 passed, 0 failed' "$log"; }
check "what the pool had given to a process that is killed is written by nobody of its job" orphan
check "  and leaves a clean pool" clean
check "a process that is killed in a collective call ends the job" aborts collectives
check "  and leaves a clean pool" clean

# Others have all of it.
"$vshmem" pool create "$name-small" --size 5M --mode 0666 >/dev/null || exit 1
fill() { while "$vshmem" run --pool "$name-small" -- ipcmk -M "$1" >/dev/null 2>&1; do :; done; }
fill 1M
fill 64K
falls_back() { passes -np 4 --mca btl_vshmem_pool "$name-small" build/mpi/threads && grep -q 'has no room for the' "$log"; }
check "a pool that is too small: a sentence, and the network" falls_back
"$vshmem" pool rm "$name-small" --force >/dev/null
"$vshmem" pool create "$name-small" --size 128M --mode 0666 --limit attaches=60 >/dev/null || exit 1
few_attaches() { passes -np 8 --mca btl_vshmem_pool "$name-small" build/mpi/threads && grep -q 'table of attaches is too small' "$log"; }
check "a table of attaches that is too small: both ends of a pair take the network" few_attaches
no_pool() { passes -np 2 --mca btl_vshmem_pool "$name-absent" build/mpi/threads && grep -q 'go over the network' "$log"; }
check "no such pool: a sentence, and the network" no_pool

# A job of its own, with a third machine.
hybrid() { tests/mpi/hybrid.sh "$vshmem" >"$log"; }
check "pool, Open MPI's own shared memory and network, each where it should be" hybrid
check "$cycles jobs, one in ten killed: a clean pool" cycles "$cycles" $((cycles / 10))
echo "$passed passed, $failed failed"
[ $failed = 0 ]
