#!/bin/bash
# Many Podman containers, one after another, each killed while it holds an attach and a SEM_UNDO: domains, clients and
# memory return to what they were after the first one.
#   tests/containers/many.sh VSHMEM [COUNT]
# The last line counts: `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$(realpath "$1") count=${2:-1000} pool=many-$$
work=$(mktemp -d /tmp/vshmem-containers.XXXXXX) || exit 1
. tests/containers/engine.sh
make -s -C tests/containers || exit 1
start_engine

fail() { echo "$1"; "$vshmem" ls --pool "$pool"; echo "0 passed, 1 failed"; exit 1; }
# What is left: domains that are alive, clients, attaches, and free memory.
left() {
	"$vshmem" ls --pool "$pool" --json >"$work/ls" && "$vshmem" pool show "$pool" --json >"$work/show" &&
		echo "domains $(grep -c '"state": "alive"' "$work/ls"), clients $(grep -c '"state": "active"' "$work/ls"), $(grep '"nattch"' "$work/ls" | tr -d ' ,'), $(grep '"free"' "$work/show" | tr -d ' ,')"
}
ready() { "${podman[@]}" logs "$1" 2>/dev/null | grep -q ready; }
back() { [ "$(left)" = "$before" ]; }

"$vshmem" pool create "$pool" --size 32M --mode 0666 >/dev/null || exit 1
"$vshmem" agent --keep --pool "/dev/shm/vshmem.$pool" || fail "no agent"
given=($("$vshmem" pool show "$pool" --as podman 2>/dev/null))
one() { # one NAME: starts a container, kills it when it holds something, removes it
	container -d --name "$1" "${given[@]}" $image /bin/vshmem run /bin/member hold >/dev/null 2>"$work/out" || { cat "$work/out"; return 1; }
	until_true ready "$1" || { "${podman[@]}" logs "$1"; return 1; }
	"${podman[@]}" kill "$1" >/dev/null && "${podman[@]}" rm -f -t 0 "$1" >/dev/null
}
detached() { left | grep -q 'clients 0, "nattch":0'; }

one first || fail "the first container failed"
until_true detached || fail "what the first container held is not given back: $(left)"
before=$(left)
echo "after 1 container: $before"
for nth in $(seq 2 "$count"); do
	one "nth$nth" || fail "container $nth failed"
	[ $((nth % 100)) != 0 ] || echo "$nth containers: $(left)"
done
until_true back || fail "after $count containers it is not what it was: $(left)"
echo "after $count containers: $(left)"
"$vshmem" pool check "$pool" || fail "the pool is damaged"
echo "1 passed, 0 failed"
