#!/bin/bash
# Unchanged programs in Fortran and Python on one counter: languages.sh BUILD 'CMD PREFIX'
# Ends with `N passed, N failed`. PYTHON: one that has sysv_ipc.
build=$1 prefix=$2 passed=0 failed=0 sum=0
here=$(dirname "$0")
. "$here/python.sh"
added() { # added N COMMAND...: adds 5 and 7, and says the sum
	local more=$1
	shift
	sum=$((sum + more))
	if [ "$($prefix "$@" "$more")" = "the counter is $sum" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1)); echo "FAILED: $* $more"
	fi
}
if [ -x "$build/counter" ]; then
	added 5 "$build/counter"
else
	echo "SKIPPED: Fortran: there is no gfortran (apt-get install gfortran)"; passed=$((passed + 1))
fi
if [ -n "$python" ]; then
	added 7 "$python" "$here/python/counter.py"
	$prefix "$python" "$here/python/counter.py" remove
else
	echo "SKIPPED: Python: there is none with sysv_ipc (apt-get install python3-sysv-ipc)"; passed=$((passed + 1))
	[ ! -x "$build/counter" ] || $prefix ipcrm -S 0xf0f0
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
