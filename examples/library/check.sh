#!/bin/bash
# Programs that are linked with libvshmem, beside one under `vshmem run`: check.sh BUILD VSHMEM
# Ends with `N passed, N failed`.
build=$1 vshmem=$2 pool=examples-$$ passed=0 failed=0
trap '"$vshmem" pool rm $pool --force >/dev/null 2>&1' EXIT
check() { # check NAME COMMAND...
	local what=$1
	shift
	if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; fi
}
"$vshmem" pool create $pool --size 8M >/dev/null || exit 1
export VSHMEM_COMMAND=$vshmem
sum() { # sum PROGRAM: two add at the same time
	"$1" $pool add 2000 & "$1" $pool add 3000
	wait $!
	"$1" $pool show >/dev/null
	[ "$("$1" $pool show | sed 's/.*the sum is //')" = $((5000 * $2)) ]
}
nth=0
for program in tally tally_static; do
	if [ ! -x "$build/$program" ]; then
		echo "SKIPPED: $program is not built"; passed=$((passed + 1)); continue
	fi
	nth=$((nth + 1))
	# The objects outlive their makers: the second program goes on with the first one's sum.
	check "$program" sum "$build/$program" $nth
done
rows() { [ "$("$vshmem" ls --pool $pool --json | grep -c '"key": "0x')" = "$1" ]; }
check "the objects are those that \`vshmem ls\` shows" rows 3
check "and go when they are removed" eval '"$build/tally" $pool remove && rows 0'
alone() { "$build/neighbours" $pool | grep -q ': domain [0-9]*, 1 process(es)'; }
check "a process alone counts itself" alone
by_name() { "$build/neighbours" $pool "$("$vshmem" ls --pool $pool --json | sed -n 's/.*"name": "\(.*\)".*/\1/p' | head -n 1)" |
	grep -q 'is this domain, and takes part: 1'; }
check "and finds its domain by name" by_name
nobody() { "$build/neighbours" $pool nobody | grep -q 'nobody does not take part'; }
check "but none that is not there" nobody
said() { # said WORDS PROGRAM...: it ends well and says so
	local words=$1
	shift
	[[ $(timeout 120 "$@") == *"$words"* ]]
}
check "memory that a process holds and two children write into" \
	said "written by its id and as a child" "$build/memory" $pool
check "two processes take turns" said "2000 turns" "$build/turns" $pool
check "letters" said " 0 wrong" "$build/letters" $pool
check "a team" said "5 members agree" "$build/teams" $pool 5
check "a ledger's first line" "$build/ledger" $pool add one
check "and the second" "$build/ledger" $pool add two
check "are both there" said "8 bytes of user" "$build/ledger" $pool show
check "and go" "$build/ledger" $pool remove
check "a doorbell" said "2000 changes; the visitor has gone, and 1 object is there" "$build/doorbell" $pool
half() { VSHMEM_POOL=$pool "$build/picture" half "$1" >/dev/null; }
drawn() { half 1 && half 0 && VSHMEM_POOL=$pool "$build/picture" show "$build/picture.out" >/dev/null &&
	[ "$(stat -c %s "$build/picture.out")" = 38415 ]; }
check "a picture of two halves" drawn
# In a domain of its own.
departed() {
	unshare --pid --mount --fork --kill-child --mount-proc bash -c '
		rm -f "$0.out"; "$0" "$2" >"$0.out" & until grep -qs waiting "$0.out"; do sleep 0.1; done
		"$1" pool leave "$2" >/dev/null; wait $!; cat "$0.out"' "$build/departure" "$vshmem" $pool
}
if unshare --pid --mount --fork true 2>/dev/null; then
	parted() { [[ $(departed) == *"written before, and after; hold: Identifier removed"* ]]; }
	check "a domain leaves" parted
else
	echo "SKIPPED: departure takes root"
fi
empty() { ! "$vshmem" ls --pool $pool --json | grep -q '"id":'; }
check "nothing is left in the pool" empty
sound() { "$vshmem" pool check $pool >/dev/null; }
check "nothing is wrong in the pool" sound
echo "$passed passed, $failed failed"
[ $failed = 0 ]
