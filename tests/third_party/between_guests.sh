#!/bin/bash
# Other people's shared-memory programs, unchanged, between two guests, or two sets of namespaces: what they say is looked at, and the
# counter of their network shows that the data did not go there.
#   between_guests.sh VSHMEM uml|qemu|containers [boost|qt|zenoh...]
# Ends with `N passed, N failed`; what is not installed is skipped.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 places=$2 name=between$$ bytes=256M
shift 2
[ $# -gt 0 ] || set -- boost qt zenoh
. tests/checks.sh
here=$PWD/tests/third_party work=$PWD/build/third_party
mkdir -p "$work"
. tests/places.bash
run="timeout 400 $run --share all,posix --"
# first COMMAND... in guest 1, until a line of it has WORD: begins WORD COMMAND...
begins() {
	local word=$1
	shift
	inside 1 "$@" >"$log.first" 2>&1 &
	first=$!
	until grep -q "$word" "$log.first"; do kill -0 $first 2>/dev/null || { cat "$log.first" >"$log"; return 1; }; sleep 0.05; done
}
# The other half in guest 2, and how both ended.
ends() {
	inside 2 "$@" >"$log" 2>&1
	local status=$?
	wait $first && [ $status = 0 ] || { cat "$log.first" >>"$log"; return 1; }
}
# Fewer bytes than this many have come by the network since.
passed_by() { [ $(($(received) - before)) -lt "$1" ]; }

boost() {
	local part
	[ -x "$work/boost/interprocess" ] || "$here/run_boost_interprocess.sh" "" memory >"$log" 2>&1
	[ -x "$work/boost/interprocess" ] || { skipped "Boost.Interprocess: not built"; return; }
	pair() {
		inside 1 $run "$work/boost/interprocess" "$1" make seen >"$log.first" 2>&1 &
		first=$!
		ends $run "$work/boost/interprocess" "$1" use seen
		local status=$?
		inside 1 $run "$work/boost/interprocess" "$1" remove seen >/dev/null 2>&1
		return $status
	}
	for part in memory locks; do check "Boost.Interprocess: $part" pair $part; done
}

qt() {
	/usr/bin/python3 -c 'import PyQt5.QtCore' 2>/dev/null || { skipped "Qt: no python3-pyqt5"; return; }
	pair() {
		begins /tmp/qipc $run /usr/bin/python3 "$here/counter_qt.py" make 1000 || return 1
		# Its keys are of files in each guest's own /tmp.
		inside 2 touch $(inside 1 sh -c 'echo /tmp/qipc*')
		ends $run /usr/bin/python3 "$here/counter_qt.py" use 1000 && grep -q 'counted 2000' "$log"
	}
	check "Qt: QSharedMemory and its lock" pair
	clear
}

zenoh() {
	local packages=$work/zenoh before
	[ -d "$packages/zenoh" ] || pip3 install -q --target "$packages" eclipse-zenoh==1.10.2 >"$log" 2>&1
	PYTHONPATH=$packages /usr/bin/python3 -c 'import zenoh' 2>/dev/null || { skipped "Zenoh: PyPI's eclipse-zenoh cannot be had"; return; }
	pair() {
		before=$(received)
		begins listens env PYTHONPATH="$packages" $run /usr/bin/python3 "$here/zenoh_large.py" sub 50 1048576 || return 1
		ends env PYTHONPATH="$packages" $run /usr/bin/python3 "$here/zenoh_large.py" pub 50 1048576 $peer &&
			grep -q '50 of 50, 50 by shared memory, 0 wrong' "$log.first" && passed_by 1000000
	}
	check "Zenoh: 50 messages of 1 MiB" pair
	# What it leaves in one kernel too.
	clear
}

for part; do $part; done
check "nothing is left" is_empty
echo "$passed passed, $failed failed"
[ $failed = 0 ]
