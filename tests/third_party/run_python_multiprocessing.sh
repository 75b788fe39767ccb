#!/bin/bash
# CPython's own tests of multiprocessing, as Debian packages them for its python3:
#   run_python_multiprocessing.sh ['CMD PREFIX'] [CLASS...]
# The classes are those of WithProcesses in _test_multiprocessing.py: SharedMemory by default. The prefix is to share
# posix-shm, e.g. 'vshmem run --pool demo --share all,posix-shm --'; for Lock, Semaphore and Condition posix-sem.
prefix=$1
shift
[ $# -gt 0 ] || set -- SharedMemory
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${BUILD:-$root/build/third_party}/python_multiprocessing
python=/usr/bin/python3
if [ ! -x "$python" ]; then
	echo "skipped: there is no $python"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
library=/usr/lib/$version

mkdir -p "$work" || exit 1
if ! "$root/tests/third_party/unpack_packages.sh" "$work/package" "lib$version-testsuite" >"$work/log" 2>&1; then
	cat "$work/log"
	echo "lib$version-testsuite could not be fetched"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
# The package has what lib*-stdlib has not: together they are the package `test`.
tests=$work/tests
mkdir -p "$tests"
cp -a "$library/test" "$tests/" 2>/dev/null
[ ! -d "$work/package$library/test" ] || cp -a "$work/package$library/test" "$tests/"

passed=0 failed=0 skipped=0
for method in fork spawn forkserver; do
	for class; do
		what="test.test_multiprocessing_$method.WithProcessesTest$class"
		log=$work/$method-$class.log
		# shellcheck disable=SC2086 # the prefix is a command with its arguments
		(cd "$work" && PYTHONPATH=$tests timeout 300 $prefix "$python" -W error -m unittest -v "$what") >"$log" 2>&1
		status=$?
		ran=$(sed -n 's/^Ran \([0-9]*\) tests\{0,1\} in .*/\1/p' "$log")
		out=$(grep -c ' \.\.\. skipped' "$log")
		bad=$(grep -cE '^(FAIL|ERROR): ' "$log")
		[ "$status" = 0 ] || [ "$bad" -gt 0 ] || bad=1
		if [ "$bad" -gt 0 ]; then
			echo "FAILED $what (status $status)"
			cat "$log"
		else
			echo "$what: ${ran:-0} run, $out skipped"
		fi
		passed=$((passed + ${ran:-0} - out - (bad < ${ran:-0} ? bad : ${ran:-0}))) failed=$((failed + bad)) skipped=$((skipped + out))
	done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
