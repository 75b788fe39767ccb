#!/bin/bash
# A domain that leaves a pool and joins it again, on one kernel: programs in PID namespaces of their own.
#   run.sh VSHMEM [ROUNDS]
# Ends with `N passed, N failed`.
vshmem=$(realpath "$1") rounds=${2:-3} here=$(dirname "$(realpath "$0")") passed=0 failed=0
pool=departure-$$ work=$(mktemp -d)
if ! unshare --pid --mount --fork true 2>/dev/null; then
	echo "SKIPPED: departure: PID namespaces cannot be made here (it takes root)"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
boxes=()
finish() {
	# unshare lets no other signal end it, and everything in the namespaces ends with it.
	kill -KILL "${boxes[@]}" 2>/dev/null
	wait 2>/dev/null
	"$vshmem" pool rm "$pool" --force >/dev/null 2>&1
	rm -rf "$work"
}
trap finish EXIT
check() { # check NAME COMMAND...
	local what=$1
	shift
	if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAILED: $what"; fi
}
within() { # within SECONDS COMMAND...: waits until it succeeds
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}
cc -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Wextra -pthread -o "$work/departing" "$here/departing.c" || exit 1
# box NAME: a domain; `in_box NAME COMMAND...` runs there.
box() {
	unshare --pid --mount --fork --kill-child --mount-proc sleep infinity &
	boxes+=($!)
	within 20 pgrep -P $! sleep >/dev/null && declare -g "box_$1=$(pgrep -P $! sleep)"
}
in_box() {
	local name=box_$1
	shift
	nsenter --target "${!name}" --pid --mount "$@"
}
start() { # start BOX NAME ARGUMENTS...: a program, until it is ready
	local where=$1 name=$2
	shift 2
	in_box "$where" "$vshmem" run --pool "$pool" -- "$work/departing" "$@" >"$work/$name" 2>&1 &
	within 30 grep -q ready "$work/$name"
}
none_in() { ! in_box "$1" pgrep departing >/dev/null; }
stop() { # stop BOX: ends its programs, which print what has come of them
	in_box "$1" pkill -TERM departing
	within 30 none_in "$1"
}
said() { grep -qE "$2" "$work/$1"; } # said NAME WORDS
sound() { "$vshmem" pool check "$pool" >"$work/check" || { cat "$work/check"; false; }; }
went_on() { # went_on NAME: as a program whose domain has left
	said "$1" 'rounds: [1-9][0-9]*, lost: 0$' && said "$1" 'semop: EIDRM, msgrcv: EIDRM' && said "$1" 'shmget: EIDRM' &&
		said "$1" 'fork: success, child: 0' && said "$1" 'shmdt: success' || { cat "$work/$1"; false; }
}
stayed() { # stayed NAME: as one whose domain takes part
	said "$1" 'rounds: [1-9][0-9]*, lost: 0$' && said "$1" 'semop: asleep, msgrcv: asleep' && said "$1" 'shmget: success' ||
		{ cat "$work/$1"; false; }
}
"$vshmem" pool create "$pool" --size 256M >/dev/null || exit 1
box one
box two
check "a program of another domain" start two stays 0x200
for round in $(seq "$rounds"); do
	check "$round: two programs" eval 'start one a 0x100 && start one b 0x300'
	check "$round: their domain leaves" in_box one "$vshmem" pool leave "$pool" >"$work/leave"
	check "$round: nothing there has the pool mapped" eval '! in_box one grep -l "vshmem.$pool" /proc/[0-9]*/maps 2>/dev/null'
	check "$round: no new program gets in" eval '! in_box one "$vshmem" run --pool "$pool" -- "$work/departing" >"$work/new" 2>&1'
	stop one
	check "$round: one went on" went_on a
	check "$round: the other, too" went_on b
	check "$round: it joins again" in_box one "$vshmem" pool join "$pool" >"$work/join"
	check "$round: nothing is wrong in the pool" sound
done
name_of() { in_box "$1" "$vshmem" ls --pool "$pool" --json | tr -d '\n' | grep -oE '\{[^{}]*"here": true' | sed -n 's/.*"name": "\([^"]*\)".*/\1/p' | head -1; }
check "a program again" start one c 0x100
check "the host drains its domain" "$vshmem" pool drain "$pool" "$(name_of one)" >"$work/drain"
stop one
check "that went on, too" went_on c
check "it joins again" in_box one "$vshmem" pool join "$pool" >"$work/join"
# Who carries it out is killed at any moment: the next one goes on from there.
killed() {
	local nth
	for nth in $(seq 20); do
		in_box one timeout -s KILL "0.0$((RANDOM % 90 + 10))" "$vshmem" pool leave "$pool"
		in_box one timeout -s KILL "0.0$((RANDOM % 90 + 10))" "$vshmem" pool join "$pool"
	done >"$work/killed" 2>&1
	in_box one "$vshmem" pool leave "$pool" >"$work/leave" && in_box one "$vshmem" pool join "$pool" >"$work/join"
}
check "a program once more" start one d 0x100
check "what carries it out is killed, again and again" killed
stop one
check "the program went on" said d 'rounds: [1-9][0-9]*, lost: 0$'
check "nothing is wrong in the pool after that" sound
check "a program that cannot be told" start one deaf 0x100 deaf
refused() { ! in_box one "$vshmem" pool leave "$pool" --within 1 >"$work/refused" 2>&1 && grep -q 'departing (pid' "$work/refused"; }
check "is named, and its domain evicted" refused
stop one
stop two
check "the other domain's program has noticed nothing" stayed stays
# Another user, in the host's domain.
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
chmod 0666 "/dev/shm/vshmem.$pool"
chmod 0755 "$work"
not_his() { ! as_nobody "$vshmem" pool leave "$pool" >"$work/his" 2>&1 && grep -q 'is decided by root' "$work/his"; }
check "another user has nobody leave" not_his
not_as_root_of_his() {
	! as_nobody unshare --user --map-root-user "$vshmem" pool leave "$pool" >"$work/his" 2>&1 && grep -q 'is decided by root' "$work/his"
}
check "nor as root of a namespace of his own" not_as_root_of_his
check "nothing is wrong in the pool" sound
echo "$passed passed, $failed failed"
[ $failed = 0 ]
