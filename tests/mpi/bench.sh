#!/bin/bash
# `vshmem bench mpi` with its program below /tmp, which guests have of their own, and from an installation.
#   bench.sh VSHMEM
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 place=/tmp/bench-mpi-$$ passed=0 failed=0
skip() { echo "SKIPPED: bench mpi: $1"; echo "1 passed, 0 failed"; exit 0; }
command -v mpirun >/dev/null || skip "no mpirun here (openmpi-bin)"
[ -e build/openmpi/mca_btl_vshmem.so ] && [ -e build/mpi/pairs ] || skip "the components are not built (libopenmpi-dev)"
[ "$(id -u)" = 0 ] || skip "needs root"
trap 'rm -rf "$place"' EXIT
check() { # check NAME COMMAND...
	local what=$1
	shift
	if "$@" >"$place/log" 2>&1 </dev/null; then
		passed=$((passed + 1)); echo "ok: $what"
	else
		failed=$((failed + 1)); echo "FAILED: $what"; tail -20 "$place/log"
	fi
}
# As `make install` lays it out: bin, and lib/vshmem beside it.
mkdir -p "$place"/bin "$place"/lib/vshmem/{bench,openmpi}
cp "$vshmem" "$(dirname "$vshmem")"/libvshmem_preload*.so "$place/bin"
cp "$(dirname "$vshmem")"/vshmem-{lab,bench} "$place/lib/vshmem"
cp "$(dirname "$vshmem")/libvshmem.so" "$place/lib/vshmem/libvshmem.so.0"
cp build/openmpi/*.so "$place/lib/vshmem/openmpi"
cp build/mpi/pairs build/mpi/windows_speed build/bench/* "$place/lib/vshmem/bench"
check "between guests, all of it below /tmp" timeout 240 "$place/bin/vshmem" bench mpi --quick --pairs 1 --json "$place/runs"
check "each contender has figures" sh -c "[ \$(grep -o '\"contender\":\"[^\"]*\"' '$place/runs' | sort -u | wc -l) = 3 ]"
check "one-sided calls" timeout 240 "$place/bin/vshmem" bench mpi --calls windows --quick --pairs 1
check "programs of other benchmarks are found, too" timeout 120 "$place/bin/vshmem" bench pingpong --quick --pairs 1 --sizes 8 --between processes
echo "$passed passed, $failed failed"
[ $failed = 0 ]
