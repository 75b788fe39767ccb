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
sound() { "$vshmem" pool check $pool >/dev/null; }
check "nothing is wrong in the pool" sound
echo "$passed passed, $failed failed"
[ $failed = 0 ]
