#!/bin/bash
# How long the way of a call is for who reads it: README.md.
#   tests/walks/run.sh [WALK...]     without: all of WALKS; with ALL=1 in the environment the lists show all functions
WALKS=(shmget semop semop-sleeps semop-undo-sleeps msgsnd msgsnd-full-ring msgsnd-list death)
here=$(cd "$(dirname "$0")" && pwd) || exit 2
root=$(cd "$here/../.." && pwd) || exit 2
[ "$(uname -m)" = x86_64 ] || { echo 'SKIPPED: the tracer knows x86-64 alone'; exit 0; }
# Nothing is optimized, so that each function of the source is one of the library, those too that are always inlined elsewhere.
target=${CARGO_TARGET_DIR:-$root/target}/walks
CARGO_TARGET_DIR=$target RUSTFLAGS='-C no-prepopulate-passes -C force-frame-pointers=yes' CARGO_PROFILE_DEV_DEBUG=line-tables-only \
	cargo build --quiet --manifest-path "$root/Cargo.toml" -p vshmem_preload --lib -p vshmem_cli --bin vshmem || exit 2
vshmem=$target/debug/vshmem library=$target/debug/libvshmem_preload.so
work=$(mktemp -d) || exit 2
pool=vshmem-walks-$$
agent=
trap '[ -z "$agent" ] || kill -CONT $agent; "$vshmem" pool rm "$pool" --force >/dev/null 2>&1; rm -rf "$work"' EXIT
for program in trace calls; do
	cc -O1 -Wall -Wextra -Werror -o "$work/$program" "$here/$program.c" || exit 2
done
readelf --wide --syms "$library" | awk '$4 == "FUNC" && $2 !~ /^0*$/ { print $2, $3 }' | sort -u -k 1,1 >"$work/symbols"
awk '{ print $1 }' "$work/symbols" >"$work/addresses"
# Sizes are decimal there, but for long ones.
awk '{ print $2 }' "$work/symbols" | while read -r size; do printf '%x\n' "$size"; done >"$work/sizes"
addr2line --exe="$library" --functions --demangle <"$work/addresses" | paste - - |
	paste "$work/addresses" "$work/sizes" - >"$work/table.of"
objdump --disassemble --no-show-raw-insn "$library" | perl "$here/words.pl" "$root" "$work/table.of" >"$work/table" || exit 2
"$vshmem" pool create "$pool" --size 64M >/dev/null || exit 2
# There is an agent, and it does nothing: what is to be done the walked call does.
"$vshmem" agent --keep --pool "/dev/shm/vshmem.$pool" || exit 2
agent=$(pgrep -f "agent --pool /dev/shm/vshmem.$pool ") || exit 2
kill -STOP $agent

[ $# != 0 ] || set -- "${WALKS[@]}"
for walk in "$@"; do
	timeout 60 "$work/trace" "$library" "$work/entered" "$vshmem" run --pool "$pool" -- "$work/calls" "$walk" \
		<"$work/addresses" || { echo "$walk: not traced"; exit 1; }
	perl "$here/count.pl" "$root" "$work/table" "$walk" <"$work/entered" || exit 1
done
