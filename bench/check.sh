#!/bin/sh
# Runs every kernel briefly, each role as a process of its own in both start orders: check.sh BUILD ['CMD PREFIX']
build=$1 prefix=$2 passed=0 failed=0
mpi=$build/../mpi mpirun=
if command -v mpirun >/dev/null 2>&1; then
	mpirun="mpirun --oversubscribe"
	[ "$(id -u)" != 0 ] || mpirun="$mpirun --allow-run-as-root"
fi

try() { # command of the first role, command of the second
	timeout 90 $prefix $1 >"$build/first.out" 2>&1 &
	first=$!
	timeout 90 $prefix $2 >"$build/second.out" 2>&1
	second_status=$?
	wait $first
	first_status=$?
	if [ $first_status = 0 ] && [ $second_status = 0 ]; then
		passed=$((passed + 1))
		cat "$build/first.out" "$build/second.out"
	else
		failed=$((failed + 1))
		echo "FAILED ($first_status, $second_status): $1 + $2"
		cat "$build/first.out" "$build/second.out"
	fi
}

both_orders() { # program and options, role, role
	try "$build/$1 $2" "$build/$1 $3"
	try "$build/$1 $3" "$build/$1 $2"
}

both_orders "pingpong_sysv --transport raw --rounds 2000 --warmup 10 --each 1000" ping pong
for size in 0 1024 100000; do
	both_orders "pingpong_sysv --transport sync --rounds 2000 --warmup 10 --size $size" ping pong
done
for size in 0 8 4096 100000; do
	both_orders "pingpong_sysv --transport shm --rounds 2000 --warmup 10 --size $size" ping pong
done
for pair in "sem 0" "sem 1024" "msg 0" "msg 8" "msg 8192" "stream 8" "stream 8192" "posix-sem 0" "cond 0" "mq 8" "mq 4096"; do
	set -- $pair
	both_orders "pingpong_sysv --transport $1 --rounds 2000 --warmup 10 --size $2" ping pong
done
both_orders "pingpong_net --transport tcp --rounds 1000 --warmup 10 --port 7217 --size 100000" server client
both_orders "pingpong_net --transport udp --rounds 1000 --warmup 10 --port 7317 --size 8" server client
both_orders "handover --rounds 2000" first second
both_orders "flood --rounds 20000" sender receiver
both_orders "flood --rounds 5000 --size 1024 --pairs 2" sender receiver
try "$build/pingpong_sysv --both --pairs 2 --rounds 1000 --transport sem" true
calls="$build/sysv_calls --rounds 500 --warmup 5 --milliseconds 50"
for case in semop semop-undo semop-array getval "--size 8 message" "--size 8 --depth 50 message" "--size 8000 message" "--size 64 posix-message" "--size 64 posix-message-urgent" "--size 4096 --touch segment" \
	"--size 4096 segment-attach" "--size 1048576 --touch segment-sustained" "--objects 100 --clients 10 lookup-semop" \
	"--objects 100 --random lookup-semget" "--objects 100 lookup-msgget" "--objects 100 lookup-shmget" \
	"--processes 8 contend-semaphore" "--processes 8 contend-queue" "--processes 5 requests"; do
	try "$calls $case" true
done
for dwarf in $("$build/dwarf_sysv" --list); do
	job="--dwarf $dwarf --n 50 --rounds 11"
	for ranks in 1 2 3; do
		try "$build/dwarf_sysv --fork $job --ranks $ranks" true
		[ ! -x "$build/dwarf_vshmem" ] || try "$build/dwarf_vshmem --fork $job --ranks $ranks" true
	done
	both_orders "dwarf_sysv --timeout 60 $job" "--rank 0" "--rank 1"
done
try "$build/dwarf_sysv --fork --dwarf laplace --n 20 --rounds 100000" true
for kind in malloc shared segment; do
	try "$build/faults --pages 100 --kind $kind" true
done
# What has nothing to do with a pool is run once.
skipped=0
if [ -z "$prefix" ]; then
	# Slow, and not stuck: it takes longer than its time-out, which a busy machine's pauses do not reach.
	try "$build/pingpong_sysv --both --rounds 600 --warmup 0 --batches 600 --transport sem --delay 20000000 --timeout 10" true
	for dwarf in $("$build/dwarf_sysv" --list); do
		for ranks in 1 2 3; do
			job="--dwarf $dwarf --n 50 --rounds 11 --ranks $ranks"
			[ ! -x "$build/dwarf_openmp" ] || try "$build/dwarf_openmp $job" true
			[ ! -x "$mpi/dwarf_mpi" ] || [ -z "$mpirun" ] || try "$mpirun -np $ranks $mpi/dwarf_mpi $job" true
		done
	done
	for part in "$build/dwarf_vshmem" "$build/dwarf_openmp" "$mpi/dwarf_mpi"; do
		[ -x "$part" ] || { echo "SKIPPED: there is no $part"; skipped=$((skipped + 1)); }
	done
	for n in 1 7 100 301; do
		try "$build/dgemm --n $n --blas none" "$build/dgemm --n $n --blas auto"
	done
	try "$build/tune --n 67 --attempts 1" "$build/faults --pages 10 --kind $build/tune"
	try "$build/stream --n 100000 --rounds 3" true
	try "$build/noise --quanta 100" "$build/writes --file $build/writes.$$ --total 300000"
	try "$build/writes --file $build/writes.$$ --total 20000 --size 4096 --sync" true
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
