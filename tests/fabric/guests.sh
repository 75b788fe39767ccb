#!/bin/bash
# Everything over libfabric's provider through the pool of two guests that are booted for it.
#   guests.sh VSHMEM uml|qemu
# Ends with `N passed, N failed`. A library that is not there, or that guests cannot see, is skipped.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 kind=${2:-uml} lab=fabric-guests-$$ log=build/fabric/guests.$$.log programs=/tmp/fabric-guests
skip() { echo "SKIPPED: libfabric between guests ($kind): $1"; echo "1 passed, 0 failed"; exit 0; }
[ -e build/libfabric/libvshmem-fi.so ] || skip "the provider is not built (libfabric-dev; scripts/setup fabric)"
command -v fi_pingpong >/dev/null || skip "no fi_pingpong here (libfabric-bin; scripts/setup fabric)"
[ "$(id -u)" = 0 ] || skip "needs root"
trap '"$vshmem" lab --name "$lab" down >/dev/null 2>&1; rm -f "$log" "$log".*' EXIT
trap 'exit 130' INT TERM
timeout 600 "$vshmem" lab --name "$lab" up --guest "$kind" -n 2 >"$log" 2>&1 || skip "$(tail -1 "$log")"
. tests/checks.sh
on() { # on GUEST SECONDS SCRIPT
	timeout -k 5 "$2" "$vshmem" lab --name "$lab" exec "$1" -- sh -c "$3" </dev/null
}
# A guest may not see this tree, or not where it is: it has a /tmp of its own. One way for all, in one go.
deliver() { # deliver FILE...: below build
	local guest pids=() rc=0
	for guest in 1 2; do
		tar -C build -cf - "$@" | timeout 100 "$vshmem" lab --name "$lab" exec $guest -- sh -c "mkdir -p $programs && tar -C $programs -xf -" >>"$log" 2>&1 &
		pids+=($!)
	done
	for guest in "${pids[@]}"; do wait "$guest" || rc=1; done
	return $rc
}
sees() { on 1 60 "test -e '$1'" && on 2 60 "test -e '$1'"; }
first=$(on 1 60 'getent hosts guest1' | cut -d' ' -f1)
passes() { # passes LIBRARY SECONDS COMMAND: in guest 1, in that environment
	on 1 "$2" "eval \"\$(vshmem fabric-env --for $1)\"; exec $3" >"$log" 2>&1
	[ $? != 124 ] && grep -q '[1-9][0-9]* passed, 0 failed' "$log"
}
shows() { on 1 60 'eval "$(vshmem fabric-env)"; exec fi_info -p vshmem' >"$log" 2>&1 && grep -q 'provider: vshmem' "$log"; }
# Few of each size: on a machine that is busy with other things, guests that poll wait long for each other.
pingpong() {
	on 1 200 'eval "$(vshmem fabric-env)"; exec fi_pingpong -c -p vshmem -e rdm -I 3 -S all' >"$log.server" 2>&1 &
	local server=$!
	# 111: the server does not listen yet.
	on 2 200 "eval \"\$(vshmem fabric-env)\"; for _ in \$(seq 100); do fi_pingpong -c -p vshmem -e rdm -I 3 -S all $first; rc=\$?; [ \$rc = 111 ] || exit \$rc; sleep 0.2; done; exit 1" >"$log" 2>&1
	local status=$?
	wait $server && [ $status = 0 ] && grep -q '^1m ' "$log" || { cat "$log.server" >>"$log"; return 1; }
}
spread() { # spread SECONDS PROGRAM WORDS...: a rank in each guest
	local limit=$1 port=$((20000 + RANDOM % 10000)) program=$2 rank rc=0 pids=()
	shift 2
	for rank in 0 1; do
		on $((rank + 1)) "$limit" "eval \"\$(vshmem fabric-env)\"; exec $programs/$program $rank 2 $first $port $*" >"$log.$rank" 2>&1 &
		pids+=($!)
	done
	for rank in 0 1; do wait "${pids[rank]}" || rc=1; done
	cat "$log".[01] >"$log"
	[ $rc = 0 ] && grep -q '[1-9][0-9]* passed, 0 failed' "$log"
}
# Tests of a library, and the files that they need.
files=() ours=() openmpi=() others=()
for program in gasnet shmem; do [ -e build/fabric/$program ] && ours+=($program) files+=(fabric/$program); done
for program in messages collectives; do
	[ -e build/mpi/$program ] && openmpi+=($program) files+=(mpi/$program)
	[ -e build/fabric/abi/$program ] && others+=($program) files+=(fabric/abi/$program)
done
check "fi_info shows the provider" shows
check "fi_pingpong, every byte looked at" pingpong
[ ${#files[@]} = 0 ] || check "the programs are in both guests" deliver "${files[@]}"
for program in "${ours[@]}"; do check "$program" spread 200 fabric/$program; done
if [ ${#ours[@]} = 2 ]; then
	check "shmem, the heap in the pool" spread 200 fabric/shmem pool
else
	skipped "the programs over libfabric are not built (libfabric-dev; scripts/setup fabric)"
fi
if ! command -v mpirun >/dev/null || [ ${#openmpi[@]} != 2 ]; then
	skipped "Open MPI over libfabric: no mpirun here (openmpi-bin, libopenmpi-dev)"
else
	check "openmpi: messages" passes openmpi 300 "mpirun -H guest1,guest2 -np 2 $programs/mpi/messages"
	check "openmpi: collectives" passes openmpi 300 "mpirun -H guest1,guest2 -np 2 $programs/mpi/collectives one"
fi
venvs=$PWD/build/fabric
there() { # there LIBRARY DIRECTORY FILE: whether guests have it, and programs for it; otherwise says so
	local what
	if [ ! -x "$venvs/$2/$3" ] || [ ${#others[@]} != 2 ]; then
		what="PyPI's wheel is not in build/fabric (scripts/setup fabric)"
	elif ! sees "$venvs/$2/$3"; then
		what="the guests do not see $venvs"
	else
		return 0
	fi
	skipped "$1: $what"
	return 1
}
if there MPICH mpich bin/mpiexec; then
	for program in messages collectives; do
		check "mpich: $program" passes mpich 300 "$venvs/mpich/bin/mpiexec -hosts guest1,guest2 -n 2 $programs/fabric/abi/$program"
	done
fi
if there "Open MPI 5" openmpi5 bin/mpirun; then
	for program in messages collectives windows; do
		check "openmpi5: $program" passes openmpi 300 "env -u OMPI_MCA_osc PRTE_MCA_plm_ssh_agent=\"\$OMPI_MCA_plm_rsh_agent\" OPAL_PREFIX=$venvs/openmpi5 PATH=$venvs/openmpi5/bin:\$PATH mpirun -H guest1,guest2 -np 2 $venvs/ompi5/$program"
	done
fi
if there "Intel MPI" impi bin/mpiexec.hydra; then
	intel="env I_MPI_ROOT=$venvs/impi LD_LIBRARY_PATH=$venvs/impi/lib $venvs/impi/bin/mpiexec.hydra -hosts guest1,guest2 -ppn 1 -n 2"
	check "intel: messages" passes intel 300 "$intel $programs/fabric/abi/messages"
fi
clean() { on 1 60 'for _ in $(seq 300); do vshmem ls --json | grep -q "\"id\":" || exit 0; sleep 0.1; done; exit 1' >"$log" 2>&1; }
check "nothing is left in the pool" clean
echo "$passed passed, $failed failed"
[ $failed = 0 ]
