#!/bin/bash
# How long the way of a call is for who reads it: through how many files (rooms) the functions lead that the call enters, and how
# often back to a file that was left before. Only the first entry of each function counts; what does not count: count.pl.
#   tests/walks/run.sh [WALK...]     without: all of WALKS
# Lists the files in the order in which they are come to ('<': come back to), with the functions first entered there.
WALKS=(shmget semop semop-sleeps semop-undo-sleeps msgsnd msgsnd-full-ring msgsnd-list death)
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
[ "$(uname -m)" = x86_64 ] || { echo 'SKIPPED: the tracer knows x86-64 alone'; exit 0; }
# Nothing is optimized, so that each function of the source is one of the library, those too that are always inlined elsewhere.
target=${CARGO_TARGET_DIR:-$root/target}/walks
CARGO_TARGET_DIR=$target RUSTFLAGS='-C no-prepopulate-passes' CARGO_PROFILE_DEV_DEBUG=line-tables-only \
	cargo build --quiet --manifest-path "$root/Cargo.toml" -p vshmem_preload --lib -p vshmem_cli --bin vshmem || exit 2
vshmem=$target/debug/vshmem library=$target/debug/libvshmem_preload.so
work=$(mktemp -d) || exit 2
pool=vshmem-walks-$$
agent=
trap '[ -z "$agent" ] || kill -CONT $agent; "$vshmem" pool rm "$pool" --force >/dev/null 2>&1; rm -rf "$work"' EXIT
for program in trace calls; do
	cc -O1 -Wall -Wextra -Werror -o "$work/$program" "$root/tests/walks/$program.c" || exit 2
done
readelf --wide --syms "$library" | awk '$4 == "FUNC" && $2 != 0 && $7 != "UND" { print $2 }' | sort -u >"$work/functions"
"$vshmem" pool create "$pool" --size 64M >/dev/null || exit 2
# There is an agent, and it does nothing: what is to be done the walked call does.
"$vshmem" agent --keep --pool "/dev/shm/vshmem.$pool" || exit 2
agent=$(pgrep -f "agent --pool /dev/shm/vshmem.$pool ") || exit 2
kill -STOP $agent

[ $# != 0 ] || set -- "${WALKS[@]}"
for walk in "$@"; do
	timeout 60 "$work/trace" "$library" "$work/entered" "$vshmem" run --pool "$pool" -- "$work/calls" "$walk" \
		<"$work/functions" || { echo "$walk: not traced"; exit 1; }
	addr2line --exe="$library" --functions --demangle <"$work/entered" | perl "$root/tests/walks/count.pl" "$walk" "$root" || exit 1
done
