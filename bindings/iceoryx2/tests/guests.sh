#!/bin/bash
# iceoryx2 between two User Mode Linux guests with nothing but a pool in common, and guests that are killed:
# bindings/iceoryx2/tests/guests.sh VSHMEM [KILLS [COUNT]]
# Ends with `N passed, N failed`.
vshmem=$(realpath "$1") kills=${2:-20} count=${3:-2000} lab=iceoryx2-$$
programs=$(cd "$(dirname "$0")/.." && pwd)/target/debug/examples
logs=$(mktemp -d) work=$logs
. "$(dirname "$0")/../../../tests/checks.sh"
trap '"$vshmem" lab down --name "$lab" >/dev/null 2>&1; "$vshmem" pool rm "$lab" --force >/dev/null 2>&1; rm -rf "$logs"' EXIT
"$vshmem" pool create "$lab" --size 512M >/dev/null || exit 1
"$vshmem" lab up --name "$lab" --guest uml -n 2 --pool "$lab" >/dev/null || exit 1
guest() { # guest NUMBER PROGRAM [WORD]
	local guest=$1 program=$2
	shift 2
	timeout 120 "$vshmem" lab exec --name "$lab" "$guest" -- env IOX2_LOG_LEVEL=fatal "$programs/$program" "$@"
}
pair() { # pair IN-ONE IN-OTHER: both end well
	guest 1 "$1" "$count" >"$logs/one" 2>&1 &
	guest 2 "$2" "$count" >"$logs/other" 2>&1
	local status=$?
	wait $! && [ $status = 0 ] || { cat "$logs/one" "$logs/other"; false; }
}
for programs_of_pair in 'subscribe publish' 'publish subscribe' 'listen notify' 'notify listen' 'respond request' 'request respond'; do
	ok "$programs_of_pair" pair $programs_of_pair
done
objects() { "$vshmem" ls --pool "$lab" --json | grep -c '"id":'; }
# That a process or a guest has died is noticed within a second or so.
is_empty() {
	for ((i = 0; i < 100; i++)); do
		guest 1 everything 0 >"$logs/last" 2>&1
		[ "$(objects)" != 0 ] || return 0
		sleep 0.1
	done
	"$vshmem" ls --pool "$lab"; cat "$logs/last"; return 1
}
ok "nothing is left by those that ended" is_empty
killed_guest() { # in both guests everything is used; one is killed, then the processes of the other
	guest 1 everything >"$logs/living" 2>&1 &
	guest 2 everything >"$logs/killed" 2>&1 &
	sleep "0.$((RANDOM % 90 + 10))"
	"$vshmem" lab kill --name "$lab" 2 >/dev/null
	left=$((left + $("$vshmem" ls --pool "$lab" | grep -c 'guest2:[0-9]* *guest')))
	"$vshmem" lab exec --name "$lab" 1 -- pidof everything >"$logs/pid" || { cat "$logs/living"; return 1; }
	"$vshmem" lab exec --name "$lab" 1 -- kill -9 $(<"$logs/pid")
	wait
	is_empty || return 1
	"$vshmem" lab restart --name "$lab" 2 >/dev/null
}
left=0
for ((kill = 0; kill < kills; kill++)); do
	ok "killed guest $kill" killed_guest
done
ok "killed guests had made $left objects that were there" [ $left -gt $kills ]
ok "nothing is wrong in the pool" "$vshmem" pool check "$lab"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
