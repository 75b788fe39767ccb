#!/bin/bash
# Deaths, full pools, crowds and many jobs over libfabric's provider: what each survivor gets, and that nothing is left.
#   deaths.sh VSHMEM [JOBS]     jobs in a row in the last case (20)
# Ends with `N passed, N failed`, after a line for each kind of operation.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 jobs=${2:-20} name=vd$$
. tests/fabric/job.bash
[ -e build/fabric/deaths ] || skip "the programs over libfabric are not built (libfabric-dev; scripts/setup fabric)"
. tests/checks.sh
# Rank 1 alone ends by the signal.
dies() { # dies KIND WHEN
	spread 60 3 deaths "$@"
	grep ', killed ' "$log"
	[ "${statuses[*]}" = "0 137 0" ] && grep -q '[1-9][0-9]* passed, 0 failed' "$log"
}
for kind in send rendezvous receive put get atomic put-pool atomic-pool; do
	for when in before idle during; do
		# What is written directly, and a short message, are done before anybody could die.
		case $kind,$when in *-pool,during) continue ;; esac
		check "$kind: peer killed, $when" dies $kind $when
	done
done
check "the pool is clean" clean

# A job in which one is killed ends, and not by the time that it has. Open MPI's launcher ends as that one did, which is no kill of its own.
ends() {
	"$@"
	local status=$?
	# No survivor is damaged by what it is told.
	! grep -q 'signal 11\|Segmentation fault' "$log" || return 1
	[ $status != 137 ] || grep -q 'exited on signal 9' "$log" && [ $status != 0 ] && [ $status != 124 ]
}
for way in '' collectives; do
	[ ! -x build/fabric/mpich/bin/mpiexec ] || check "mpich: a process killed in ${way:-an exchange} ends the job" ends mpich 100 4 build/fabric/abi/victim $way
	{ [ ! -x build/fabric/impi/bin/mpiexec.hydra ] || [ ! -e build/fabric/abi/victim ]; } || check "intel: a process killed in ${way:-an exchange} ends the job" ends intel 100 4 build/fabric/abi/victim $way
	! command -v mpirun >/dev/null || check "openmpi: a process killed in ${way:-an exchange} ends the job" ends openmpi 100 4 build/mpi/victim $way
done
check "the pool is clean" clean

# 64 in a pool of 128 MiB; with room in the table of attaches for all pairs, and without.
crowd() { # crowd POOL WORDS...
	local pool=$1
	shift
	FABRIC_POOL=$pool spread 200 64 crowd "$@"
	all_pass
}
"$vshmem" pool create "$name-small" --size 128M --mode 0666 --limit attaches=8192 >/dev/null || exit 1
check "64 endpoints in 128 MiB, each sends to all" crowd "$name-small"
"$vshmem" pool rm "$name-small" --force >/dev/null
"$vshmem" pool create "$name-small" --size 128M --mode 0666 >/dev/null || exit 1
check "  with its usual table of attaches: those it has no room for get FI_ENOMEM" crowd "$name-small" or-not
"$vshmem" pool rm "$name-small" --force >/dev/null
# Others have all of it.
"$vshmem" pool create "$name-small" --size 5M --mode 0666 >/dev/null || exit 1
fill() { while "$vshmem" run --pool "$name-small" -- ipcmk -M "$1" >/dev/null 2>&1; do :; done; }
fill 1M
fill 64K
fill 4K
full() { # an error and a sentence, no signal
	FABRIC_POOL=$name-small spread 60 2 messages
	case " ${statuses[*]} " in *' 0 '* | *' 124 '* | *' 137 '* | *' 139 '* | *' 134 '*) return 1 ;; esac
	grep -q 'vshmem: .*room\|vshmem: .*memory' "$log"
}
check "a full pool: an error and a sentence" full
"$vshmem" pool rm "$name-small" --force >/dev/null

cycles() { # jobs one after the other, one in ten killed
	local nth
	for nth in $(seq "$jobs"); do
		if [ $((nth % 10)) = 5 ]; then
			spread 60 3 deaths send during
			[ "${statuses[*]}" = "0 137 0" ] || { echo "job $nth"; return 1; }
		else
			ours 60 4 crowd || { echo "job $nth"; return 1; }
		fi
	done
	clean
}
check "$jobs jobs, one in ten killed: a clean pool" cycles
echo "$passed passed, $failed failed"
[ $failed = 0 ]
