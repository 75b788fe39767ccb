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

# A program that has begun is killed, and one of the other side too; the next run of both finds what they have left.
after_death() { # name first second next_first next_second
	for begun in "$2" "$3"; do
		$prefix $begun >"$build/begun.out" 2>&1 &
		begun=$!
		[ "$first_begun" ] || first_begun=$begun
		# It has joined; or it waits for the end of the other.
		until grep -q '^[a-z_]*: ' "$build/begun.out"; do sleep 0.05; done
	done
	kill -KILL $first_begun $begun
	wait $first_begun $begun 2>/dev/null
	first_begun=
	pair "$1" "$4" "$5"
	if ! grep -q 'an earlier run did not finish' "$build/first.out" "$build/second.out"; then
		failed=$((failed + 1))
		echo "FAILED $1: nothing is said of the earlier run"
	fi
}

for mode in ring queue; do
	p="$build/producer -m $mode -n" c="$build/consumer -m $mode -n"
	after_death "$mode, after the deaths of both" "$c 100000000" "$p 100000000" "$c 5000" "$p 5000"
	after_death "$mode, after the deaths of both, producer first" "$p 100000000" "$c 100000000" "$p 5000" "$c 5000"
done
after_death "matrix, after a fill was killed" "$build/matrix_fill" "$build/matrix_fill" "$build/matrix_check -r 2000 -s 7" "$build/matrix_fill -r 2000 -s 7"
for mode in ring queue; do
	p="$build/producer -m $mode -n 5000" c="$build/consumer -m $mode -n 5000"
	pair "$mode, producer first" "$p" "$c"
	pair "$mode, consumer first" "$c" "$p"
done
pair "matrix, fill first" "$build/matrix_fill -s 7" "$build/matrix_check -s 7"
pair "matrix, check first" "$build/matrix_check -s 7" "$build/matrix_fill -s 7"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
