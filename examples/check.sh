#!/bin/sh
# Runs every pair of examples in both start orders: check.sh BUILD ['CMD PREFIX']
build=$1 prefix=$2 passed=0 failed=0

pair() { # name first second
	timeout 60 $prefix $2 >"$build/first.out" 2>&1 &
	first=$!
	timeout 60 $prefix $3 >"$build/second.out" 2>&1
	second_status=$?
	wait $first
	first_status=$?
	if [ $first_status = 0 ] && [ $second_status = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $1 (exit $first_status and $second_status)"
		cat "$build/first.out" "$build/second.out"
	fi
}

for mode in ring queue; do
	p="$build/producer -m $mode -n 5000" c="$build/consumer -m $mode -n 5000"
	pair "$mode, producer first" "$p" "$c"
	pair "$mode, consumer first" "$c" "$p"
done
pair "matrix, fill first" "$build/matrix_fill -s 7" "$build/matrix_check -s 7"
pair "matrix, check first" "$build/matrix_check -s 7" "$build/matrix_fill -s 7"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
