#!/bin/bash
# Boost.Interprocess from Debian, between two processes: run_boost_interprocess.sh ['CMD PREFIX'] [memory|locks...]
# The prefix is to share posix, e.g. 'vshmem run --pool demo --share all,posix --'.
prefix=$1
shift
[ $# -gt 0 ] || set -- memory locks
here=$(cd "$(dirname "$0")" && pwd)
work=${BUILD:-$here/../../build/third_party}/boost
mkdir -p "$work" || exit 1
work=$(cd "$work" && pwd)
program=$work/interprocess
prepare() {
	[ -x "$program" ] && [ "$program" -nt "$here/boost/interprocess.cpp" ] && return 0
	command -v g++ || return 1
	"$here/unpack_packages.sh" "$work/package" libboost1.74-dev || "$here/unpack_packages.sh" "$work/package" libboost-dev || return 1
	g++ -std=c++17 -O1 -pthread -isystem "$work/package/usr/include" -o "$program" "$here/boost/interprocess.cpp"
}
if ! prepare >"$work/log" 2>&1; then
	cat "$work/log"
	echo "Boost could not be fetched, or its program not be built"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
passed=0 failed=0
name=boost-$$
for part; do
	# shellcheck disable=SC2086 # the prefix is a command with its arguments
	{
		timeout 60 $prefix "$program" "$part" make "$name" >"$work/$part.make" 2>&1 &
		maker=$!
		timeout 60 $prefix "$program" "$part" use "$name" >"$work/$part.use" 2>&1
		used=$?
		wait $maker
		made=$?
		$prefix "$program" "$part" remove "$name" >/dev/null 2>&1
	}
	if [ $made = 0 ] && [ $used = 0 ]; then
		passed=$((passed + 1))
		echo "$part: ok"
	else
		failed=$((failed + 1))
		echo "FAILED $part: make $made, use $used"
		cat "$work/$part.make" "$work/$part.use"
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
