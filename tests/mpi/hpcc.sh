#!/bin/bash
# The HPC Challenge (Debian's package, unpacked, not installed) between two guests through a pool, beside Open MPI's own
# shared memory in one kernel and TCP between the guests. Prints a table.
#   hpcc.sh VSHMEM [PROCESSES] [N] [LAB]     default: 2 processes, N = 1000, a lab of two User Mode Linux guests of its own
# Ends with `N passed, N failed`: who completed with Success=1.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 processes=${2:-2} n=${3:-1000} lab=$4
own=${lab:+no} lab=${lab:-hpcc-$$} work=$PWD/build/hpcc
command -v mpirun >/dev/null || { echo "SKIPPED: hpcc: no mpirun here (openmpi-bin)"; echo "1 passed, 0 failed"; exit 0; }
tests/third_party/unpack_packages.sh "$work" hpcc libblas3 >"$work.log" 2>&1 || { tail "$work.log"; exit 1; }
libraries=$(dirname "$(find "$work" -name 'libblas.so.3' | head -1)")
example=$(find "$work" -name '_hpccinf*' | head -1)
mkdir -p "$work/run"
# The example with this problem, on a grid of one or more rows.
case $processes in 2) rows=1 ;; 4) rows=2 ;; 8) rows=2 ;; *) rows=1 ;; esac
zcat -f "$example" | awk -v n="$n" -v p="$rows" -v q=$((processes / rows)) \
	'/ Ns$/ { $1 = n } / Ps$/ { $1 = p } / Qs$/ { $1 = q } { print }' >"$work/run/hpccinf.txt"
if [ "$own" != no ]; then
	"$vshmem" lab --name "$lab" up --guest uml -n 2 >"$work/lab.log" 2>&1 || { tail "$work/lab.log"; exit 1; }
	trap '"$vshmem" lab --name "$lab" down >/dev/null 2>&1' EXIT
	trap 'exit 130' INT TERM
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
program=$(find "$work" -path '*/bin/hpcc')
guests() { # guests WORDS-OF-MPIRUN
	local half=$((processes / 2))
	timeout 900 "$vshmem" lab --name "$lab" exec 1 -- sh -c "
		eval \"\$(vshmem mpi-env)\"
		cp $work/run/hpccinf.txt /tmp && cd /tmp && rm -f hpccoutf.txt
		mpirun $* -wdir /tmp -x LD_LIBRARY_PATH=$libraries -H guest1:$half,guest2:$half -np $processes $program >&2
		cat hpccoutf.txt"
}
one_kernel() {
	(cd "$work/run" && rm -f hpccoutf.txt && timeout 900 mpirun --oversubscribe --mca pml ob1 --mca btl vader,self \
		-x LD_LIBRARY_PATH="$libraries" -np "$processes" "$program" >&2; cat hpccoutf.txt)
}
one_kernel >"$work/vader.txt" 2>"$work/vader.err"
guests --mca btl vshmem,vader,self >"$work/vshmem.txt" 2>"$work/vshmem.err"
guests --mca btl tcp,self >"$work/tcp.txt" 2>"$work/tcp.err"
field() { sed -n "s/^$2=//p" "$work/$1.txt" | tail -1; }
printf '%-36s %16s %16s %16s\n' "$processes processes, N = $n" 'vader, 1 kernel' 'vshmem, 2 guests' 'tcp, 2 guests'
for key in Success MaxPingPongLatency_usec AvgPingPongLatency_usec RandomlyOrderedRingLatency_usec MinPingPongBandwidth_GBytes \
	NaturallyOrderedRingBandwidth_GBytes PTRANS_GBs MPIRandomAccess_GUPs MPIFFT_Gflops HPL_Tflops; do
	printf '%-36s %16s %16s %16s\n' "$key" "$(field vader $key)" "$(field vshmem $key)" "$(field tcp $key)"
done
passed=0 failed=0
for who in vader vshmem tcp; do
	if [ "$(field $who Success)" = 1 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); tail -5 "$work/$who.err"; fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
