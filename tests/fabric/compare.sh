#!/bin/bash
# Two processes over libfabric's provider beside its rivals, in turns: a table of medians.
#   compare.sh VSHMEM [RUNS] [CONTENDERS...]     1 run and all of them when nothing else is said
# openmpi-provider and openmpi-btl: mtl/ofi and the component of its own, between two namespaces. mpich-*, intel-*: through the pool
# (vshmem) and over tcp between two namespaces; in one, over our provider (near) and over libfabric's shm.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 runs=${2:-1} name=vg$$
shift $(($# > 2 ? 2 : $#))
contenders=${*:-openmpi-provider openmpi-btl mpich-vshmem mpich-near mpich-shm mpich-tcp intel-vshmem intel-near intel-shm intel-tcp}
. tests/fabric/job.bash
out=build/fabric/compare.$$
both=$hosts
for _ in $(seq "$runs"); do
	for who in $contenders; do
		library=${who%-*} fabric=${who#*-} program=build/fabric/abi/pairs hosts=$both
		case $who in
		openmpi-provider) fabric=vshmem program=build/mpi/pairs ;;
		*-near) fabric=vshmem hosts=$first ;;
		*-shm) hosts=$first ;;
		esac
		case $who in
		openmpi-btl)
			eval "$("$vshmem" mpi-env --pool "$name")"
			OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent="$nodes agent $name" OMPI_MCA_hwloc_base_binding_policy=none \
				timeout 100 $nodes run "$name" 1 mpirun --map-by node -H "$both" -np 2 build/mpi/pairs quick >"$log" 2>&1 </dev/null
			unset ${!OMPI_MCA_*} ;;
		*) MPIR_CVAR_NOLOCAL=1 I_MPI_FABRICS=ofi "$library" 100 2 "$program" quick ;;
		esac || { echo "$who: did not end"; tail -5 "$log"; }
		awk -v who="$who" 'NF == 4 && $4 + 0 > 0 { print who, $1, $2, $3, $4 }' "$log" >>"$out"
	done
done
echo "2 processes, $runs runs in turns, microseconds: the median of each run's fastest repetition"
awk -f tests/medians.awk -f <(printf %s '
{ take(" MPI_Alloc_mem") }
END { printf "%-30s", ""; for (c = 1; c <= columns; c++) printf " %17s", column_at[c]; print ""
	for (r = 1; r <= rows; r++) { printf "%-30s", row_at[r]; for (c = 1; c <= columns; c++) printf " %17.3f", median(row_at[r], column_at[c]); print "" } }
') "$out"
rm -f "$out"
