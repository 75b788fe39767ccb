#!/bin/bash
# Nodes that are killed leave nothing in the pool: bindings/iceoryx2/tests/deaths.sh VSHMEM [KILLS [AT-ONCE]]
# Ends with `N passed, N failed`.
vshmem=$(realpath "$1") kills=${2:-1000} at_once=${3:-3} pool=iceoryx2-deaths-$$
programs=$(cd "$(dirname "$0")/.." && pwd)/target/debug/examples
logs=$(mktemp -d) work=$logs
. "$(dirname "$0")/../../../tests/checks.sh"
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; "$vshmem" pool rm "$pool" --force >/dev/null 2>&1; rm -rf "$logs"' EXIT
"$vshmem" pool create "$pool" --size 1G >/dev/null || exit 1
export VSHMEM_COMMAND=$vshmem VSHMEM_POOL=$pool IOX2_LOG_LEVEL=fatal
# Two that live on: nothing is to happen to them.
"$programs/subscribe" 1000000000 >"$logs/subscribe" 2>&1 &
subscriber=$!
"$programs/publish" 1000000000 >"$logs/publish" 2>&1 &
publisher=$!
killed=0
while [ $killed -lt "$kills" ]; do
	victims=()
	for ((i = 0; i < at_once; i++)); do
		"$programs/everything" >>"$logs/victims" 2>&1 &
		victims+=($!)
	done
	sleep "0.0$((RANDOM % 90 + 10))"
	for victim in "${victims[@]}"; do
		kill -9 "$victim" 2>/dev/null && killed=$((killed + 1))
		wait "$victim" 2>/dev/null
	done
done
ok "a subscriber lives on" kill -0 $subscriber
ok "a publisher lives on" kill -0 $publisher
kill -9 $subscriber $publisher
wait $subscriber $publisher 2>/dev/null
# That somebody has died is noticed within a second or so.
objects() { "$vshmem" ls --pool "$pool" --json | grep -c '"id":'; }
for ((i = 0; i < 50; i++)); do
	"$programs/everything" 0 >"$logs/last" 2>&1
	[ "$(objects)" != 0 ] || break
	sleep 0.1
done
empty() { [ "$(objects)" = 0 ] || { "$vshmem" ls --pool "$pool"; cat "$logs/last"; false; }; }
ok "$killed killed nodes leave nothing" empty
ok "nothing is wrong in the pool" "$vshmem" pool check "$pool"
grep '^everything\|panicked' "$logs/victims" | sed 's/round [0-9]*/round N/' | sort | uniq -c | sort -rn | cut -c 1-200 | head -20
echo "$passed passed, $failed failed"
[ $failed = 0 ]
