#!/bin/bash
# How long a ping-pong between two guests stands still when one of them leaves the pool, and when it joins it again; and what a message
# takes before, meanwhile and after. Medians; it counts no failures but those of the job.
#   gap.sh VSHMEM [LEAVES [uml|qemu]]     10 leaves, User Mode Linux
cd "$(dirname "$0")/../.." || exit 1
vshmem=$(realpath "$1") leaves=${2:-10} kind=${3:-uml} lab=mpi-gap-$$ place=/tmp/mpi-gap log=build/mpi/gap.$$.log
trap '"$vshmem" lab --name "$lab" down >/dev/null 2>&1; rm -f "$log"' EXIT
trap 'exit 130' INT TERM
timeout 600 "$vshmem" lab --name "$lab" up --guest "$kind" -n 2 >"$log" 2>&1 || { tail -1 "$log"; exit 1; }
guest() { local nth=$1; shift; timeout 100 "$vshmem" lab --name "$lab" exec "$nth" -- sh -c "$@"; }
for nth in 1 2; do guest $nth "mkdir -p $place && cat >$place/gap && chmod 755 $place/gap" <build/mpi/gap || exit 1; done
pool=$(guest 1 'vshmem mpi-env' </dev/null | sed -n "s/.*btl_vshmem_pool='\(.*\)'/\1/p")
: >"$log"
timeout 500 "$vshmem" lab --name "$lab" exec 1 -- sh -c "eval \"\$(vshmem mpi-env)\"
	OMPI_MCA_btl_vshmem_count=1 exec mpirun --map-by ppr:1:node:OVERSUBSCRIBE -H guest1:1,guest2:1 -np 2 $place/gap $place/stop" >>"$log" 2>&1 </dev/null &
job=$!
seen() { # seen COUNT WORDS
	until [ "$(grep -c "$2" "$log")" -ge "$1" ]; do
		kill -0 $job 2>/dev/null || { tail "$log"; exit 1; }
		sleep 0.02
	done
}
rounds() { seen $(($(grep -c '^round' "$log") + $1)) '^round'; }
rounds 60
for nth in $(seq "$leaves"); do
	echo '= leave' >>"$log"
	guest 2 "vshmem pool leave $pool" >>"$log" 2>&1 </dev/null || { tail "$log"; exit 1; }
	seen "$nth" 'has left the pool'
	rounds 40
	echo '= join' >>"$log"
	guest 2 "vshmem pool join $pool" >>"$log" 2>&1 </dev/null || { tail "$log"; exit 1; }
	seen "$nth" 'all messages go by the pool again'
	rounds 40
done
guest 1 "touch $place/stop" </dev/null
wait $job || { tail "$log"; exit 1; }
median() { sort -n | awk -v what="$1" '{ all[NR] = $1 } END { printf "%-42s median %s, least %s, most %s (%d)\n", what, all[int((NR + 1) / 2)], all[1], all[NR], NR }'; }
# The first windows after a change still show it.
of() { # of PHASE COLUMN: of rounds in a phase, or the longest of each
	awk -v wanted="$1" -v column="$2" '
		function ends() { if (wanted == phase && column == 3 && longest) print longest; longest = 0 }
		BEGIN { phase = "before" }
		/^= / { ends(); phase = $2; skip = 0 }
		/has left the pool/ { skip = 5; next_phase = "during" }
		/all messages go by the pool again/ { skip = 5; next_phase = "after" }
		/^round/ {
			if (phase == wanted && column == 2) print $2
			longest = $3 > longest ? $3 : longest
			if (skip && --skip == 0) { ends(); phase = next_phase }
		}' "$log"
}
of before 2 | median 'one message by the pool, before: us'
of during 2 | median '  by the connection: us'
of after 2 | median '  by the pool again: us'
of leave 3 | median 'the longest round at a leave: us'
of join 3 | median '  at a join: us'
of before 3 | median '  otherwise, before: us'
of during 3 | median '  otherwise, by the connection: us'
of after 3 | median '  otherwise, by the pool again: us'
sed -n 's/.*has left the pool after \([0-9]*\) ms/\1/p' "$log" | median 'a leave, in the process: ms'
sed -n 's/.*pool again, \([0-9]*\) ms after.*/\1/p' "$log" | median 'a join, in the process: ms'
grep 'vshmem: [0-9]* messages' "$log"
