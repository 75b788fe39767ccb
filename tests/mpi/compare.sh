#!/bin/bash
# Open MPI's own shared memory in one namespace, the pool between two, and TCP between the two, in turns: a table of medians.
#   compare.sh VSHMEM [PROCESSES] [RUNS] [quick|full|collectives|exchange|transpose|windows]
# `collectives` also makes the collective calls through the pool by messages, as they are without the component for them.
# `windows`: one-sided calls instead, beside osc/sm in one namespace (Open MPI has none over TCP).
# CONTENDERS="vader vshmem": those alone; `heap` is another: the pool, with the program's large allocations in it (`mpi-env --heap`).
# 2 processes, 3 runs and `quick` when nothing else is said. With 16, eight pairs share the CPUs that there are.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 processes=${2:-2} runs=${3:-3} length=${4:-quick} name=vp$$
. tests/mpi/job.bash
unset OMPI_MCA_btl_vshmem_count
out=build/mpi/compare.$$ half=$((processes / 2)) contenders="vader vshmem tcp"
[ "$length" != collectives ] || contenders="vader vshmem messages tcp"
program=pairs in_one=()
[ "$length" != windows ] || { program=windows_speed length=quick contenders="vader vshmem" in_one=(--mca osc sm); }
contenders=${CONTENDERS:-$contenders}
hosts=$($nodes hosts "$name" 2 $half)
for run in $(seq "$runs"); do
	for who in $contenders; do
		case $who in
		vader) timeout 900 $nodes run "$name" 1 mpirun --mca btl vader,self "${in_one[@]}" --oversubscribe -np "$processes" build/mpi/$program "$length" >"$log" 2>&1 ;;
		vshmem) mpi 900 --mca btl vshmem,vader,self --map-by ppr:$half:node -np "$processes" build/mpi/$program "$length" ;;
		heap) with_heap 64K mpi 900 --mca btl vshmem,vader,self --map-by ppr:$half:node -np "$processes" build/mpi/$program "$length" ;;
		messages) mpi 900 --mca btl vshmem,vader,self --mca coll ^vshmem --map-by ppr:$half:node -np "$processes" build/mpi/$program "$length" ;;
		tcp) mpi 900 --mca btl tcp,self --map-by ppr:$half:node -np "$processes" build/mpi/$program "$length" ;;
		esac || { echo "$who: did not end"; tail -5 "$log"; }
		awk -v who=$who 'NF == 4 && $4 + 0 > 0 { print who, $1, $2, $3, $4 }' "$log" >>"$out"
	done
done
echo "$processes processes, $runs runs in turns, microseconds: median (smallest)"
case " $contenders " in
*" heap "*) also=heap title="heap in the pool, 2" ratio=vader/heap ;;
*" messages "*) also=messages title="by messages" ratio=messages/vshmem ;;
esac
awk -v also="${also:-}" -v title="${title:-}" -v ratio="${ratio:-}" -f tests/medians.awk -f <(printf %s '
function cell(m) { return sprintf("%11.3f (%9.3f)", m, least) }
{ take(" pool") }
END { printf "%-24s %23s %23s %23s %14s %12s\n", "", "vader, 1 namespace", "vshmem, 2", "tcp, 2", "vader/vshmem", "tcp/vshmem" (also ? sprintf(" %23s %15s", title, ratio) : "")
	for (r = 1; r <= rows; r++) { row = row_at[r]
		a = median(row, "vader"); ca = cell(a); b = median(row, "vshmem"); cb = cell(b); c = median(row, "tcp"); cc = cell(c)
		printf "%-24s %23s %23s %23s %13.2fx %11.1fx", row, ca, cb, cc, b ? a / b : 0, b ? c / b : 0
		d = median(row, also); cd = cell(d)
		if (also == "heap") { b = d; d = a }
		if (also) printf " %23s %14.2fx", cd, b ? d / b : 0
		print "" } }
') "$out"
rm -f "$out"
