#!/bin/bash
# Other people's shared-memory programs, unchanged, between two guests, or two sets of namespaces: what they say is looked at, and the
# counter of their network shows that the data did not go there.
#   between_guests.sh VSHMEM uml|qemu|containers [boost|qt|zenoh...]
# Ends with `N passed, N failed`; what is not installed is skipped.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 places=$2 name=between$$ host=
shift 2
[ $# -gt 0 ] || set -- boost qt zenoh
. tests/checks.sh
here=$PWD/tests/third_party work=$PWD/build/third_party
mkdir -p "$work"
log=$(mktemp)
trap '[ -z "$host" ] || kill $host; ip netns del $name 2>/dev/null; "$vshmem" lab --name $name down >/dev/null 2>&1; "$vshmem" pool rm $name --force >/dev/null; rm -f "$log" "$log.first"' EXIT
"$vshmem" pool create $name --size 256M >/dev/null || exit 1
run="vshmem run" first_host=guest1
case $places in
uml) device=vec0 ;;
qemu) device=eth0 ;;
*)
	# One network, so that they can find each other.
	ip netns add $name && ip -n $name link set lo up || exit 1
	guest() { shift; ip netns exec $name unshare --mount --pid --ipc --fork --kill-child --mount-proc "$@"; }
	run="$vshmem run --pool $name" device=lo first_host=127.0.0.1
	# A container's agent ends with it. The host's sees that.
	"$vshmem" run --pool $name -- sleep infinity &
	host=$!
	;;
esac
if [ "$places" != containers ]; then
	timeout 600 "$vshmem" lab --name $name up --guest $places -n 2 --pool $name >"$log" 2>&1 || { cat "$log"; exit 1; }
	guest() { local number=$1; shift; "$vshmem" lab --name $name exec "$number" -- "$@"; }
fi
run="timeout 400 $run --share all,posix --"
received() { guest 2 cat /sys/class/net/$device/statistics/rx_bytes; }
# first COMMAND... in guest 1, until a line of it has WORD: begins WORD COMMAND...
begins() {
	local word=$1
	shift
	guest 1 "$@" >"$log.first" 2>&1 &
	first=$!
	until grep -q "$word" "$log.first"; do kill -0 $first 2>/dev/null || { cat "$log.first" >"$log"; return 1; }; sleep 0.05; done
}
# The other half in guest 2, and how both ended.
ends() {
	guest 2 "$@" >"$log" 2>&1
	local status=$?
	wait $first && [ $status = 0 ] || { cat "$log.first" >>"$log"; return 1; }
}
# Fewer bytes than this many have come by the network since.
passed_by() { [ $(($(received) - before)) -lt "$1" ]; }
is_empty() {
	for _ in $(seq 50); do [ "$("$vshmem" ls --pool $name --json | grep -c '"id"')" != 0 ] || break; sleep 0.1; done
	[ "$("$vshmem" ls --pool $name --json | grep -c '"id"')" = 0 ] && "$vshmem" pool check $name >"$log" 2>&1
}

boost() {
	local part
	[ -x "$work/boost/interprocess" ] || "$here/run_boost_interprocess.sh" "" memory >"$log" 2>&1
	[ -x "$work/boost/interprocess" ] || { skipped "Boost.Interprocess: not built"; return; }
	pair() {
		guest 1 $run "$work/boost/interprocess" "$1" make seen >"$log.first" 2>&1 &
		first=$!
		ends $run "$work/boost/interprocess" "$1" use seen
		local status=$?
		guest 1 $run "$work/boost/interprocess" "$1" remove seen >/dev/null 2>&1
		return $status
	}
	for part in memory locks; do check "Boost.Interprocess: $part" pair $part; done
}

qt() {
	/usr/bin/python3 -c 'import PyQt5.QtCore' 2>/dev/null || { skipped "Qt: no python3-pyqt5"; return; }
	pair() {
		begins /tmp/qipc $run /usr/bin/python3 "$here/counter_qt.py" make 1000 || return 1
		# Its keys are of files in each guest's own /tmp.
		guest 2 touch $(guest 1 sh -c 'echo /tmp/qipc*')
		ends $run /usr/bin/python3 "$here/counter_qt.py" use 1000 && grep -q 'counted 2000' "$log"
	}
	check "Qt: QSharedMemory and its lock" pair
	"$vshmem" rm -a --pool $name >/dev/null 2>&1
}

zenoh() {
	local packages=$work/zenoh before
	[ -d "$packages/zenoh" ] || pip3 install -q --target "$packages" eclipse-zenoh==1.10.2 >"$log" 2>&1
	PYTHONPATH=$packages /usr/bin/python3 -c 'import zenoh' 2>/dev/null || { skipped "Zenoh: PyPI's eclipse-zenoh cannot be had"; return; }
	pair() {
		before=$(received)
		begins listens env PYTHONPATH="$packages" $run /usr/bin/python3 "$here/zenoh_large.py" sub 50 1048576 || return 1
		ends env PYTHONPATH="$packages" $run /usr/bin/python3 "$here/zenoh_large.py" pub 50 1048576 $first_host &&
			grep -q '50 of 50, 50 by shared memory, 0 wrong' "$log.first" && passed_by 1000000
	}
	check "Zenoh: 50 messages of 1 MiB" pair
	# What it leaves in one kernel too.
	"$vshmem" rm -a --pool $name >/dev/null 2>&1
}

for part; do $part; done
check "nothing is left" is_empty
echo "$passed passed, $failed failed"
[ $failed = 0 ]
