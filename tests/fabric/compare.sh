#!/bin/bash
# Two processes over libfabric's provider beside its rivals, in turns: a table of medians.
#   compare.sh VSHMEM [RUNS] [CONTENDERS...]     1 run and all of them when nothing else is said
# openmpi-provider and openmpi-btl: mtl/ofi and the component of its own, between two namespaces. mpich-*, intel-*: through the pool and
# over tcp between two namespaces, over libfabric's shm provider in one.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 runs=${2:-1} name=vg$$
shift $(($# > 2 ? 2 : $#))
contenders=${*:-openmpi-provider openmpi-btl mpich-vshmem mpich-shm mpich-tcp intel-vshmem intel-shm intel-tcp}
. tests/fabric/job.bash
out=build/fabric/compare.$$
both=$hosts
for _ in $(seq "$runs"); do
	for who in $contenders; do
		library=${who%-*} fabric=${who#*-} program=build/fabric/abi/pairs hosts=$both
		case $who in
		openmpi-provider) fabric=vshmem program=build/mpi/pairs ;;
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
awk '{ key = $2 " " $3 " B" ($4 == "pool" ? " MPI_Alloc_mem" : ""); if (!(key in seen)) { seen[key] = 1; order[++keys] = key }
	if (!($1 in column)) { column[$1] = 1; heads[++columns] = $1 } v[key, $1, ++n[key, $1]] = $5 / 1000 }
	function middle(key, who,   c, i, j, t, a) { c = n[key, who]; for (i = 1; i <= c; i++) a[i] = v[key, who, i]
		for (i = 1; i <= c; i++) for (j = i + 1; j <= c; j++) if (a[j] < a[i]) { t = a[i]; a[i] = a[j]; a[j] = t }
		return c ? a[int((c + 1) / 2)] : 0 }
	END { printf "%-30s", ""; for (c = 1; c <= columns; c++) printf " %17s", heads[c]; print ""
		for (k = 1; k <= keys; k++) { printf "%-30s", order[k]; for (c = 1; c <= columns; c++) printf " %17.3f", middle(order[k], heads[c]); print "" } }' "$out"
rm -f "$out"
