#!/bin/bash
# Other people's shared-memory programs, unchanged, between two guests, or two sets of namespaces: what they say is looked at, and the
# counter of their network shows that the data did not go there.
#   between_guests.sh VSHMEM uml|qemu|containers [boost|qt|zenoh|torch...]    (torch: only if it is named; Debian's python3-torch)
#   between_guests.sh VSHMEM figures     Zenoh's round trips: between guests by the pool, in one kernel, between guests by its TCP, interleaved
# Ends with `N passed, N failed`; what is not installed is skipped.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 places=$2 name=between$$ bytes=256M
shift 2
[ $# -gt 0 ] || set -- boost qt zenoh
[ "$places" != figures ] || { places=uml; set -- zenoh_figures; }
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

packages=$work/zenoh
has_zenoh() {
	[ -d "$packages/zenoh" ] || pip3 install -q --target "$packages" eclipse-zenoh==1.10.2 >"$log" 2>&1
	PYTHONPATH=$packages /usr/bin/python3 -c 'import zenoh' 2>/dev/null || { skipped "Zenoh: PyPI's eclipse-zenoh cannot be had"; return 1; }
}
zenoh() {
	local before
	has_zenoh || return
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

# One line for each round of each size: who, bytes, microseconds.
zenoh_figures() {
	local size trips
	has_zenoh || return
	pair() { # pair SHARED BYTES TRIPS
		begins listens env PYTHONPATH="$packages" $run /usr/bin/python3 "$here/zenoh_large.py" pong "$3" "$2" $1 || return 1
		ends env PYTHONPATH="$packages" $run /usr/bin/python3 "$here/zenoh_large.py" ping "$3" "$2" $1 $peer || return 1
		sed "s/^/$2 /" "$log"
	}
	alone() { # alone BYTES TRIPS
		PYTHONPATH=$packages /usr/bin/python3 "$here/zenoh_large.py" pong "$2" "$1" shared >"$log.first" 2>&1 &
		first=$!
		until grep -q listens "$log.first"; do kill -0 $first || return 1; sleep 0.05; done
		PYTHONPATH=$packages /usr/bin/python3 "$here/zenoh_large.py" ping "$2" "$1" shared 127.0.0.1 | sed "s/^/$1 /"
		wait $first
	}
	for _ in $(seq "${ROUNDS:-7}"); do
		for size in 4096 65536 1048576; do
			trips=$((size > 100000 ? 50 : 200))
			pair shared $size $trips | sed 's/^/guests /'
			alone $size $trips | sed 's/^/kernel /'
			pair network $size $trips | sed 's/^/tcp /'
		done
	done | sort -k2,2n -k1,1 -k3,3n | awk '{ all[$2, $1, ++n[$2, $1]] = $3 }
		END { for (who in n) { split(who, of, SUBSEP); printf "%8d bytes, %-6s %9.1f us, %.1f to %.1f, of %d\n",
			of[1], of[2], all[of[1], of[2], int((n[who] + 1) / 2)], all[of[1], of[2], 1], all[of[1], of[2], n[who]], n[who] } }' | sort -n
	clear
}

torch() {
	/usr/bin/python3 -c 'import torch' 2>/dev/null || { skipped "PyTorch: no python3-torch"; return; }
	pair() {
		begins made $run /usr/bin/python3 "$here/torch_shared.py" make || return 1
		ends $run /usr/bin/python3 "$here/torch_shared.py" use
	}
	check "PyTorch: a tensor on a file below /dev/shm" pair
	check "PyTorch: tensors by the file_system strategy, in one domain" inside 1 $run /usr/bin/python3 "$here/torch_shared.py" send
	clear
}

for part; do $part; done
check "nothing is left" is_empty
echo "$passed passed, $failed failed"
[ $failed = 0 ]
