#!/bin/bash
# Builds the iceoryx2 variant and tries all of it: bindings/iceoryx2/tests/run.sh VSHMEM [KILLED-NODES [KILLED-GUESTS]]
# Needs crates.io, libvshmem beside VSHMEM, and for guests User Mode Linux. Ends with `N passed, N failed`.
vshmem=$(realpath "$1") nodes=${2:-1000} guests=${3:-20} pool=iceoryx2-$$ passed=0 failed=0
cd "$(dirname "$0")/.." || exit 1
cargo=$(command -v cargo || echo "$HOME/.cargo/bin/cargo")
export VSHMEM_LIB_DIR=$(dirname "$vshmem") VSHMEM_COMMAND=$vshmem
trap '"$vshmem" pool rm "$pool" --force >/dev/null 2>&1' EXIT
ok() { # ok WHAT COMMAND...
	local what=$1
	shift
	if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; fi
}
"$cargo" build --locked --tests --examples || exit 1
"$vshmem" pool create "$pool" --size 1G >/dev/null || exit 1
conformance() { # conformance SUITE: their closing line is cargo's
	VSHMEM_POOL=$pool IOX2_LOG_LEVEL=fatal "$cargo" test --locked --test "$1" -- --quiet >"$log" 2>&1
	local status=$?
	[ $status = 0 ] || tail -n 40 "$log"
	grep '^test result' "$log"
	return $status
}
log=$(mktemp)
ok "iceoryx2's conformance tests of concepts" conformance concepts
ok "iceoryx2's conformance tests of services" conformance services
rm "$log"
ok "nothing is wrong in the pool" "$vshmem" pool check "$pool"
ok "licences" env LICENCES_OF=bindings/iceoryx2 "$cargo" test --quiet --manifest-path ../../Cargo.toml -p vshmem_structure --test licences
ok "killed nodes" tests/deaths.sh "$vshmem" "$nodes"
ok "guests" tests/guests.sh "$vshmem" "$guests"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
