# To be sourced: jobs over libfabric, in network namespaces that launchers take for machines, and on one kernel.
# Wants $vshmem (the command) and $name (of the pool and the namespaces); FABRIC=vshmem|shm|tcp is the provider under test (vshmem).
# Sets $hosts and $log, and takes all down at exit.
skip() { echo "SKIPPED: libfabric through a pool: $1"; echo "1 passed, 0 failed"; exit 0; }
[ "$(id -u)" = 0 ] || skip "needs root, for network namespaces"
fabric=${FABRIC:-vshmem} count=${count:-2} nodes=$PWD/tests/mpi/nodes log=build/fabric/$name.log venvs=$PWD/build/fabric
[ "$fabric" != vshmem ] || [ -e build/libfabric/libvshmem-fi.so ] || skip "the provider is not built (libfabric-dev; scripts/setup fabric)"
mkdir -p build/fabric
. tests/mpi/machines.bash
"$vshmem" pool create "$name" --size "${pool_bytes:-256M}" --mode 0666 >/dev/null || exit 1
hosts=$($nodes hosts "$name" "$count")
first=${hosts%%,*}

# The words of a library for the provider (FABRIC_POOL: on another pool, FABRIC_HEAP=--heap: with large allocations in it) under test, one a line: NAME=VALUE.
words() { # words LIBRARY
	local full=$fabric
	[ "$fabric" != tcp ] || full='tcp;ofi_rxm'
	case $fabric,$1 in
	# It has no osc/pt2pt, and needs none.
	vshmem,openmpi5) words openmpi | grep -v '^OMPI_MCA_osc=' ;;
	vshmem,*) "$vshmem" fabric-env --pool "${FABRIC_POOL:-$name}" ${FABRIC_HEAP:+"$FABRIC_HEAP"} --for "$1" | sed "s/^export //; s/'//g" ;;
	*,gasnet) echo "FI_PROVIDER=$full" ;;
	*,mpich) printf '%s\n' "FI_PROVIDER=$full" MPIR_CVAR_CH4_NETMOD=ofi ;;
	*,intel) echo "I_MPI_OFI_PROVIDER=$fabric" ;;
	*,openmpi5) printf '%s\n' OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi "FI_PROVIDER=$full" "OMPI_MCA_mtl_ofi_provider_include=$full" "OMPI_MCA_btl_ofi_provider_include=$full" ;;
	*,openmpi) printf '%s\n' OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_mca_base_env_list=FI_PROVIDER "FI_PROVIDER=$full" "OMPI_MCA_mtl_ofi_provider_include=$full" ;;
	esac
}
inside() { # inside LIBRARY SECONDS COMMAND...: on the first of the machines, in that environment
	local library=$1 limit=$2 lines
	shift 2
	mapfile -t lines < <(words "$library")
	timeout -k 5 "$limit" $nodes run "$name" 1 env "${lines[@]}" "$@" >"$log" 2>&1 </dev/null
}
# Each launcher: LAUNCHER SECONDS PROCESSES WORDS-OF-THE-LAUNCHER... PROGRAM; processes go to the machines in turn.
mpich() {
	local limit=$1 n=$2
	shift 2
	inside mpich "$limit" env HYDRA_LAUNCHER=rsh HYDRA_LAUNCHER_EXEC="$nodes" HYDRA_LAUNCHER_EXTRA_ARGS="agent $name" \
		"$venvs/mpich/bin/mpiexec" -iface eth0 -hosts "$hosts" -n "$n" "$@"
}
intel() {
	local limit=$1 n=$2
	shift 2
	# It would look for providers in its own directory alone. What the caller's environment says of fabrics goes before our words.
	inside intel "$limit" env ${I_MPI_FABRICS:+I_MPI_FABRICS="$I_MPI_FABRICS"} I_MPI_ROOT="$venvs/impi" LD_LIBRARY_PATH="$venvs/impi/lib" $([ "$fabric" = vshmem ] || echo "FI_PROVIDER_PATH=$venvs/impi/lib") \
		I_MPI_HYDRA_BOOTSTRAP=rsh I_MPI_HYDRA_BOOTSTRAP_EXEC="$nodes" I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS="agent $name" \
		"$venvs/impi/bin/mpiexec.hydra" -iface eth0 -hosts "$hosts" -ppn 1 -n "$n" "$@"
}
openmpi() {
	local limit=$1 n=$2
	shift 2
	inside openmpi "$limit" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent="$nodes agent $name" \
		OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_mapping_policy=node OMPI_MCA_rmaps_base_oversubscribe=1 \
		mpirun -H "$($nodes hosts "$name" "$count" 64)" -np "$n" "$@"
}
openmpi5() {
	local limit=$1 n=$2
	shift 2
	# A wheel is not where it was built for.
	inside openmpi5 "$limit" env OPAL_PREFIX="$venvs/openmpi5" PATH="$venvs/openmpi5/bin:$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		PRTE_MCA_plm_ssh_agent="$nodes agent $name" PRTE_MCA_hwloc_default_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=node:oversubscribe \
		mpirun -H "$($nodes hosts "$name" "$count" 64)" -np "$n" "$@"
}
# The project's own programs, of one process each: rank after rank to the machines in turn. Sets the ranks' statuses.
spread() { # spread SECONDS RANKS PROGRAM WORDS...
	local limit=$1 n=$2 program=$3 port=$((20000 + RANDOM % 10000)) rank pids=() lines
	shift 3
	mapfile -t lines < <(words gasnet)
	for rank in $(seq 0 $((n - 1))); do
		timeout -k 5 "$limit" $nodes run "$name" $((1 + rank % count)) env "${lines[@]}" "build/fabric/$program" "$rank" "$n" "$first" "$port" "$@" \
			>"$log.$rank" 2>&1 </dev/null &
		pids+=($!)
	done
	statuses=()
	for rank in $(seq 0 $((n - 1))); do { wait "${pids[rank]}"; } 2>/dev/null; statuses+=($?); done
	cat "$log".[0-9]* >"$log"
	rm -f "$log".[0-9]*
}
all_pass() { [ -z "$(tr -d '0 ' <<<"${statuses[*]}")" ] && grep -q '[1-9][0-9]* passed, 0 failed' "$log"; }
ours() { spread "$@"; all_pass; }
passes() { "$@" && grep -q '[1-9][0-9]* passed, 0 failed' "$log"; }
