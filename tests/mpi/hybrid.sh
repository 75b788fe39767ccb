#!/bin/bash
# One job on three machines (network namespaces), of which two have the pool: two processes on each, and who talks to whom by what.
#   hybrid.sh VSHMEM
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 name=vh$$ count=3
. tests/mpi/job.bash
# The third has a /dev/shm of its own.
export NODES_WITHOUT_POOL=3
each=1000
received() { ip netns exec "$name$1" cat /sys/class/net/eth0/statistics/rx_bytes; }
within() { for node in 1 2 3; do ip netns exec "$name$node" cat /sys/class/net/lo/statistics/rx_bytes; done | awk '{ sum += $1 } END { print int(sum / 1000) }'; }
inside=$(within) before=("" $(received 1) $(received 2) $(received 3))
if ! passes -np 6 --mca btl vshmem,vader,tcp,self build/mpi/hybrid $each; then tail -20 "$log"; echo "0 passed, 1 failed"; exit 1; fi
after=("" $(received 1) $(received 2) $(received 3))
grep -h 'messages sent\|go over the network' "$log" | sort -u
passed=0 failed=0
verdict() { if [ "$1" = 1 ]; then passed=$((passed + 1)); echo "ok: $2"; else failed=$((failed + 1)); echo "FAILED: $2"; fi; }
# The pool: each of four processes to two others, and little besides.
right=$(awk -v each=$each '/messages sent/ { for (i = 2; i <= NF; i++) if ($i == "messages") n = $(i - 1); if (n >= 2 * each && n < 2.2 * each) good++; else bad++ }
	END { print good == 4 && !bad }' "$log")
verdict "$right" "between the two machines of the pool: $((2 * each)) messages from each process through the pool, and none of the third's"
# The network, in the thousands of bytes that are messages' own: node 3 hears four processes, the others its two.
kib() { echo $(((after[$1] - before[$1]) / 1000)); }
for node in 1 2 3; do echo "machine $node received $(kib $node) kB over the network"; done
least=$((each * 4)) most=$((each * 6))
verdict "$([ "$(kib 1)" -ge $least ] && [ "$(kib 1)" -lt $most ] && [ "$(kib 2)" -ge $least ] && [ "$(kib 2)" -lt $most ] && echo 1)" \
	"over the network to the first two: what the third's processes send them, $least kB, and nothing of each other's"
verdict "$([ "$(kib 3)" -ge $((each * 8)) ] && [ "$(kib 3)" -lt $((each * 10)) ] && echo 1)" \
	"over the network to the third: what the four others send, $((each * 8)) kB; what its two send each other stays in it"
inside=$(($(within) - inside))
echo "$inside kB over the loopback interfaces of the three"
verdict $((inside < each * 2)) "within a machine: neither, so Open MPI's own shared memory has the $((each * 6)) kB that they send there"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
