#!/bin/bash
# Stock Open MPI, and a team, through the pool of two guests that are booted for it.
#   guests.sh VSHMEM uml|qemu [PROCESSES...]     2 4 8 when nothing else is said
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 kind=${2:-uml}
shift 2
counts=${*:-2 4 8} lab=mpi-guests-$$ log=build/mpi/guests.$$.log programs=/tmp/mpi-guests
skip() { echo "SKIPPED: MPI between guests ($kind): $1"; echo "1 passed, 0 failed"; exit 0; }
command -v mpirun >/dev/null || skip "no mpirun here (openmpi-bin)"
[ -e build/openmpi/mca_btl_vshmem.so ] || skip "the components are not built (libopenmpi-dev)"
[ "$(id -u)" = 0 ] || skip "needs root"
trap '"$vshmem" lab --name "$lab" down >/dev/null 2>&1; rm -f "$log"' EXIT
trap 'exit 130' INT TERM
timeout 600 "$vshmem" lab --name "$lab" up --guest "$kind" -n 2 >"$log" 2>&1 || skip "$(tail -1 "$log")"
# A guest may not see this tree, or not where it is: it has a /tmp of its own.
deliver() { # deliver FILE
	local guest place=$programs/${1##*/}
	for guest in 1 2; do
		timeout 60 "$vshmem" lab --name "$lab" exec $guest -- sh -c "mkdir -p $programs && cat >$place && chmod 755 $place" <"$1" || exit 1
	done
}
for file in build/mpi/{messages,windows,window_calls,window_layouts,accumulates,threads,collectives,blocks,spawn,victim} build/team/team; do deliver "$file"; done
. tests/checks.sh
passes() { # passes COUNT PROGRAM [SLOTS WORDS-OF-MPIRUN...]
	local count=$1 program=$2 slots=${3:-$(($1 / 2))}
	shift $(($# > 3 ? 3 : $#))
	timeout -k 5 400 "$vshmem" lab --name "$lab" exec 1 -- sh -c "eval \"\$(vshmem mpi-env)\"
		OMPI_MCA_btl_vshmem_count=1 OMPI_MCA_coll_vshmem_count=1 OMPI_MCA_osc_vshmem_count=1 exec mpirun ${*:---map-by ppr:$slots:node:OVERSUBSCRIBE} -H guest1:$slots,guest2:$slots -np $count $programs/$program" >"$log" 2>&1 </dev/null
	grep -q '[1-9][0-9]* passed, 0 failed' "$log"
}
by_teams() { grep -q 'vshmem: [1-9][0-9]* collective calls by [1-9][0-9]* teams' "$log"; }
through_pool() { grep -q 'vshmem: [1-9][0-9]* messages sent' "$log"; }
# What it says besides its results and counts; a warning that PRRTE, mpirun of Open MPI 5, now and then has of itself. Windows of 8 processes need more than the lab's pool has left beside their ports.
quiet() { ! grep -v ' passed, 0 failed\|messages sent\|collective calls by\|windows in the pool\|a window of 8 processes is not in the pool\|plm:ssh: Warning: setpgid' "$log"; }
for n in $counts; do
	for program in messages windows threads collectives blocks; do
		check "$program, $n processes" passes "$n" $program
		check "  through the pool" through_pool
		[ $program != collectives ] || check "  by teams in it" by_teams
		check "  and nothing to complain about" quiet
	done
done
in_pool() { [ "$(grep -c 'vshmem: [1-9][0-9]* windows in the pool' "$log")" = "$1" ]; }
for n in $counts; do
	[ "$n" -le 4 ] || continue
	check "every one-sided call, $n processes" passes "$n" "window_calls across"
	check "  on windows in the pool" in_pool "$n"
	check "  and nothing to complain about" quiet
	check "  with data of every layout" passes "$n" window_layouts
done
check "accumulates of every kind" passes 2 accumulates
check "  none refused in the pool" grep -q 'MPI_Alloc_mem 0, MPI_Win_allocate 0' "$log"
team() { # four members, two in each guest, in a segment of the pool
	local rank pids=() rc=0
	for rank in 0 1 2 3; do
		timeout -k 5 200 "$vshmem" lab --name "$lab" exec $((1 + rank % 2)) -- sh -c \
			"LD_LIBRARY_PATH=\$(dirname \"\$(command -v vshmem)\") exec vshmem run $programs/team member 0x7ea3 4 $rank 60" \
			>>"$log" 2>&1 </dev/null &
		pids+=($!)
	done
	for rank in 0 1 2 3; do wait "${pids[rank]}" || rc=1; done
	return $rc
}
: >"$log"
check "a team of four" team
# Without slots for them Open MPI 4.1 loses them, over the network alone, too.
check "processes that are spawned later" passes 2 spawn 4 --map-by node:OVERSUBSCRIBE
# Last: a guest's power goes off, which the pool knows at once. Open MPI's own network knows after minutes, and says so by itself:
# whichever of our two watches is tested has to say so before that.
by_itself='R*TE has lost communication'
job() { # job MCA-WORDS WORDS-OF-VICTIM...: until it is going, and then without guest 2
	local parameters=$1
	shift
	"$vshmem" lab --name "$lab" exec 1 -- sh -c "eval \"\$(vshmem mpi-env)\"
		exec timeout -k 1 240 mpirun $parameters --map-by ppr:2:node:OVERSUBSCRIBE -H guest1:2,guest2:2 -np 4 $programs/victim guest $*" >"$log" 2>&1 </dev/null &
	job=$!
	until grep -q going "$log"; do kill -0 $job 2>/dev/null || return 1; sleep 0.1; done
	"$vshmem" lab --name "$lab" kill 2 >>"$log" 2>&1
}
lost() { grep -q 'machine guest2 is lost: its domain is dead' "$log"; }
ends() { job "" "$@" && { wait $job; [ $? != 124 ]; } && lost; }
# The processes' watch alone, without mpirun's: that they end themselves is said, and mpirun waits.
notices() {
	job "--mca rtc ^vshmem" "$@" || return 1
	until grep -q 'is dead, and processes of this job with it' "$log"; do
		kill -0 $job 2>/dev/null && ! grep -q "$by_itself" "$log" || return 1
		sleep 0.1
	done
	timeout 60 "$vshmem" lab --name "$lab" exec 1 -- pkill -KILL mpirun
	wait $job
	! lost
}
again() { timeout 300 "$vshmem" lab --name "$lab" restart 2 >"$log" 2>&1 && deliver build/mpi/victim; }
check "a guest that is killed ends the job: mpirun hears of it from the pool" ends
check "  boots again" again
check "  processes that have talked to its notice it by themselves" notices
check "  boots again" again
check "  and one that waits for a process it has never heard of" notices silent
echo "$passed passed, $failed failed"
[ $failed = 0 ]
