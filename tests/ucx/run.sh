#!/bin/bash
# Stock UCX between two User Mode Linux guests: its shared memory lies in the pool, under `vshmem run --one-host`.
#   run.sh VSHMEM            checks
#   run.sh VSHMEM figures    latency between the guests, in one kernel, and by UCX's TCP between the guests, interleaved
# KILLS=N: so many processes are killed. UCX_LIBRARY=DIRECTORY: where another build of UCX lies than this machine's own.
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 lab=ucx$$ kills=${KILLS:-20}
. tests/checks.sh
tags=$PWD/build/ucx/tags
if [ ! -x "$tags" ]; then
	skipped "build/ucx/tags is not there (libucx-dev; make -C tests/ucx)"
	echo "$passed passed, $failed failed"
	exit
fi
log=$(mktemp)
"$vshmem" pool create $lab --size 512M >/dev/null && "$vshmem" lab --name $lab up --guest uml -n 2 --pool $lab >"$log" 2>&1 ||
	{ cat "$log"; exit 1; }
trap '"$vshmem" lab --name $lab down >/dev/null; "$vshmem" pool rm $lab --force >/dev/null; rm -f "$log"' EXIT

shared=(UCX_TLS=sysv,self UCX_LOG_LEVEL=warn ${UCX_LIBRARY:+LD_LIBRARY_PATH=$UCX_LIBRARY})
inside() { local guest=$1; shift; "$vshmem" lab --name $lab exec "$guest" -- "$@"; }
# With --one-host in both guests: pair MODE...
pair() {
	inside 1 env "${shared[@]}" timeout 120 vshmem run --one-host -- "$tags" 99 serve >"$log.serve" 2>&1 &
	inside 2 env "${shared[@]}" timeout 120 vshmem run --one-host -- "$tags" 99 "$@" >"$log" 2>&1
	local status=$?
	wait $!
	"$vshmem" rm -a --pool $lab >/dev/null 2>&1
	return $status
}
received() { inside 2 cat /sys/class/net/vec0/statistics/rx_bytes; }
streams() {
	local before=$(received)
	pair stream 1073741824 && grep -q '^equal: 1073741824 bytes' "$log" && [ $(($(received) - before)) -lt 1000000 ]
}
is_empty() { "$vshmem" pool check $lab >"$log" 2>&1 && [ "$("$vshmem" ls --pool $lab --json | grep -c '"id"')" = 0 ]; }
refused() {
	inside 1 env "${shared[@]}" timeout 20 vshmem run -- "$tags" 99 serve >"$log.serve" 2>&1 &
	! inside 2 env "${shared[@]}" timeout 20 vshmem run -- "$tags" 99 latency 8 1000 >"$log" 2>&1
	local status=$?
	wait $!
	"$vshmem" rm -a --pool $lab >/dev/null 2>&1
	[ $status = 0 ] && grep -q 'unreachable' "$log"
}
# At any moment from its start on, with and without a peer.
killed() {
	local guest
	for guest in 1 2; do
		inside $guest env "${shared[@]}" bash -c '
			for i in $(seq '$((kills / 2))'); do
				timeout -s KILL 0.$((RANDOM % 700 + 200)) vshmem run --one-host -- '"$tags"' $((i + 100)) '"$([ $guest = 1 ] && echo serve || echo forever)"'
			done >/dev/null 2>&1' &
	done
	wait
	# Queues stay, as ever, and segments of processes that were killed between shmget and IPC_RMID.
	"$vshmem" rm -a --pool $lab >"$log" 2>&1
	for _ in $(seq 50); do is_empty && return; sleep 0.1; done
	return 1
}

if [ "$2" = figures ]; then
	for _ in $(seq "${ROUNDS:-11}"); do
		pair latency "${BYTES:-8}" 100000 && echo "guests $(cat "$log")"
		(export "${shared[@]}"; "$tags" $$ serve & "$tags" $$ latency "${BYTES:-8}" 100000; wait; ipcrm -Q $$) | sed 's/^/kernel /'
		(shared=(UCX_TLS=tcp,self "${shared[@]:1}"); pair latency "${BYTES:-8}" 200 && echo "tcp $(cat "$log")")
	done | sort -k1,1 -k2,2n | awk '{ all[$1, ++n[$1]] = $2 } END { for (who in n) printf "%-8s %9.3f us, %.3f to %.3f, of %d\n", who, all[who, int((n[who] + 1) / 2)], all[who, 1], all[who, n[who]], n[who] }'
	exit
fi
check "without --one-host UCX finds its peer unreachable" refused
check "messages, looked at" pair latency 8 20000
check "1 GiB, by hash, past the network" streams
check "  nothing is left" is_empty
check "$kills processes killed" killed
echo "$passed passed, $failed failed"
[ $failed = 0 ]
