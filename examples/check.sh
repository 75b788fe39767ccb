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

# A run is broken off in the middle. After SIGINT nothing is left of it; after SIGKILL the next one finds what is.
after() { # after SIGNAL name first second next_first next_second
	# What an earlier case has printed must not be read for this one's.
	rm -f "$build/begun.out" "$build/found.out"
	ended=
	if [ "$4" ]; then
		$prefix $4 >/dev/null 2>&1 &
		ended=$!
	fi
	$prefix $3 >"$build/begun.out" 2>&1 &
	# It has begun, and waits: for the other side, or for ever.
	until grep -q ' items through \| messages of \| filled with ' "$build/begun.out" 2>/dev/null && grep -q '^State:.S' /proc/$!/status; do sleep 0.05; done
	# So has the other side: no start takes half a second of a CPU.
	until [ -z "$ended" ] || awk '{ exit $14 + $15 < 50 }' "/proc/$ended/stat"; do sleep 0.05; done
	ended="$ended $!"
	kill -"$1" $ended
	wait $ended 2>/dev/null
	if [ "$1" = INT ]; then
		pair "$2, after SIGINT" "$5" "$6"
		return
	fi
	timeout 60 $prefix $5 >"$build/found.out" 2>&1 &
	found=$!
	until grep -q 'an earlier run was broken off' "$build/found.out" 2>/dev/null || ! kill -0 $found 2>/dev/null; do sleep 0.05; done
	timeout 60 $prefix $6 >"$build/second.out" 2>&1 && wait $found && grep -q 'earlier run' "$build/found.out"
	if [ $? = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $2, after SIGKILL"
		cat "$build/found.out" "$build/second.out"
	fi
}

c="$build/consumer -n" p="$build/producer -n" f="$build/matrix_fill -r 2000 -s" m="$build/matrix_check -r 2000 -s"
for signal in INT KILL; do
	after $signal ring "$p 100000000" "$c 100000000" "$c 5000" "$p 5000"
	after $signal queue "$p 100000000 -m queue" "" "$p 5000 -m queue" "$c 5000 -m queue"
	after $signal matrix "$f 5" "" "$f 7" "$m 7"
done
for mode in ring queue; do
	p="$build/producer -m $mode -n 5000" c="$build/consumer -m $mode -n 5000"
	pair "$mode, producer first" "$p" "$c"
	pair "$mode, consumer first" "$c" "$p"
done
pair "matrix, fill first" "$build/matrix_fill -s 7" "$build/matrix_check -s 7"
pair "matrix, check first" "$build/matrix_check -s 7" "$build/matrix_fill -s 7"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
