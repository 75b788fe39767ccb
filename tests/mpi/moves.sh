#!/bin/bash
# Machines (containers) leave the pool while a job of Open MPI runs, and join it again: its messages go over to connections, and back.
#   moves.sh VSHMEM [LEAVES]     default 10; with less, processes are killed at one moment, not at many
# Ends with `N passed, N failed`. Without root or Open MPI it says that it is skipped.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$(realpath "$1") leaves=${2:-10} name=vv$$
moments="0.0 0.1 0.2 0.3 0.5 0.8" command_moments="0.02 0.05 0.1 0.2"
[ "$leaves" -ge 10 ] || moments=0.1 command_moments=0.05
. tests/mpi/job.bash
. tests/checks.sh
export NODES_CONTAINERS=1
stop=build/mpi/$name.stop
trap 'rm -f "$stop"*; cleanup' EXIT
# A job in the background; its ranks write to $log, and the rounds they have made beside $stop. There is its status, too, when it
# has ended by itself.
start() { # start PROCESSES WORDS-OF-MPIRUN...
	local processes=$1
	shift
	rm -f "$stop"*
	# Daemons of 5.0 that were killed leave these, and in PID namespaces the next ones have their numbers.
	rm -rf "${TMPDIR:-/tmp}/prte"*".$name"*
	timeout -k 5 400 sh -c '"$@"; rc=$?; echo $rc >"$0.status"; exit $rc' "$stop" \
		$nodes run "$name" 1 mpirun -H "$hosts" -np "$processes" "$@" >"$log" 2>&1 </dev/null &
	job=$!
	rounds 5
}
rounds() { # rounds COUNT: waits until so many more were made
	local made until
	made=$(cat "$stop.rounds" 2>/dev/null)
	until=$((${made:-0} + $1))
	until [ "${made:-0}" -ge $until ]; do
		kill -0 $job 2>/dev/null || return 1
		sleep 0.05
		made=$(cat "$stop.rounds" 2>/dev/null)
	done
}
breaks_off() { ! wait $job && [ -s "$stop.status" ]; }
ends() { touch "$stop" && wait $job && grep -q '^1 passed, 0 failed' "$log"; }
program() { # program NODE [PLACE]: the pid of a process of the job there
	local pid
	for pid in $(ip netns pids "$name$1"); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != moves ] || { echo "$pid"; return; }
	done
}
in_node() { # in_node NODE COMMAND...
	local pid
	pid=$(program "$1") || return 1
	shift
	nsenter --target "$pid" --pid --mount "$@"
}
leave() { in_node "$1" "$vshmem" pool leave "$name" --within "${2:-60}" >"$log.leave" 2>&1; }
join() { in_node "$1" "$vshmem" pool join "$name" >"$log.leave" 2>&1; }
# A leave and a join count when messages have gone over and back.
said() { grep -c "$1" "$log"; }
all_said() { # all_said COUNT WORDS
	until [ "$(said "$2")" -ge "$1" ]; do
		kill -0 $job 2>/dev/null || return 1
		sleep 0.05
	done
}
gone=0 back=0
away() { # away NODE... PROCESSES-THERE
	local node pids=() rc=0
	for node in "${@:1:$#-1}"; do leave "$node" & pids+=($!); done
	for node in "${pids[@]}"; do wait "$node" || rc=1; done
	gone=$((gone + ${*: -1}))
	[ $rc = 0 ] && all_said $gone 'has left the pool' && rounds 20
}
home() {
	local node
	for node in "${@:1:$#-1}"; do join "$node" || return 1; done
	back=$((back + ${*: -1}))
	all_said $back 'all messages go by the pool again' && rounds 20
}
goes() { # goes PROCESSES NODES LEAVES WORDS...: all nodes of a list leave at once, and come back
	local processes=$1 list=$2 count=$3 nth
	shift 3
	gone=0 back=0
	start "$processes" "$@" || return 1
	for nth in $(seq "$count"); do
		# shellcheck disable=SC2086 # numbers
		away $list $((processes * $(wc -w <<<"$list") / 2)) && home $list $((processes * $(wc -w <<<"$list") / 2)) || { echo "leave $nth"; kill $job; wait $job; return 1; }
	done
	ends && [ "$(grep -c 'messages sent by connections, [1-9]' "$log")" = "$processes" ]
}
check "2 processes, $leaves leaves" goes 2 2 "$leaves" build/mpi/moves "$stop"
check "  one-sided calls, too" goes 2 2 3 build/mpi/moves "$stop" one-sided
check "  two threads of each process" goes 4 2 2 --mca coll_vshmem_after 0 build/mpi/moves "$stop" threads
check "4 processes, $leaves leaves, one-sided and collective calls" goes 4 2 "$leaves" --mca coll_vshmem_after 0 --mca coll_vshmem_count 1 build/mpi/moves "$stop" one-sided
check "  collective calls went by several teams, one after the other" grep -q 'collective calls by \([3-9]\|[1-9][0-9]\)' "$log"
check "both machines at once, and mpirun with them" goes 4 "1 2" 3 --mca coll_vshmem_after 0 build/mpi/moves "$stop" one-sided
check "the pool is clean" clean
# What cannot go over: the leave evicts its machine, and the job ends.
refused() {
	start 2 build/mpi/moves "$stop" window || return 1
	leave 2 3 && return 1
	breaks_off && grep -q 'does not leave the pool: it has windows' "$log" && grep -q 'was evicted from the pool\|is dead' "$log"
}
check "with a window in the pool: refused with a sentence, and the job ends" refused
# A process that makes no call until the time limit has passed.
silent() {
	local pid
	start 4 build/mpi/moves "$stop" || return 1
	pid=$(program 2)
	kill -STOP "$pid"
	leave 2 3 && return 1
	grep -q "moves (pid" "$log.leave" || return 1
	kill -CONT "$pid"
	breaks_off && grep -q 'was evicted from the pool\|is dead' "$log"
}
check "with a process that is stopped: it is named, and the job ends" silent
# Killed in the middle of it, on either side: the job ends, as it does for any death.
killed() { # killed NODE MILLISECONDS
	local pid
	start 4 --mca coll_vshmem_after 0 build/mpi/moves "$stop" one-sided || return 1
	pid=$(program "$1")
	leave 2 10 &
	sleep "$2"
	kill -KILL "$pid"
	breaks_off || return 1
	wait
}
for after in $moments; do
	check "who leaves is killed after $after s" killed 2 $after
	check "who stays is killed after $after s" killed 1 $after
done
check "  and the pool is clean" clean
# The command is killed: the next one goes on where it was.
command_killed() { # command_killed SECONDS
	start 4 --mca coll_vshmem_after 0 build/mpi/moves "$stop" one-sided || return 1
	leave 2 &
	sleep "$1"
	pkill -KILL -f "^$vshmem pool leave $name"
	wait $!
	rounds 20 && leave 2 && rounds 20 && join 2 && all_said 2 'all messages go by the pool again' && rounds 20 && ends
}
for after in $command_moments; do check "the command that leaves is killed after $after s" command_killed $after; done
check "  and the pool is clean" clean
echo "$passed passed, $failed failed"
[ $failed = 0 ]
