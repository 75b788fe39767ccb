#!/bin/bash
# Programs that are debugged work on a pool as they do on the kernel: with the compilers' sanitizers, Valgrind, gdb and strace, and
# these find on a pool what they find on the kernel.
#   tests/debugging/run.sh VSHMEM
vshmem=$(realpath "$1") || exit 2
suppressions=$(realpath "$(dirname "$0")"/../../packaging/valgrind.supp) || exit 2
cd "$(dirname "$0")" || exit 2
passed=0 failed=0 skipped=0
pool=debugging-$$
work=$(mktemp -d) || exit 2
trap '"$vshmem" pool rm "$pool" >/dev/null 2>&1; rm -rf "$work"' EXIT
"$vshmem" pool create "$pool" --size 64M >/dev/null || exit 2
on_pool=("$vshmem" run --pool "$pool" --share all,posix --)

# What the program prints on the kernel is printed on the pool, and the status is 0.
same() { # same WHAT COMMAND...
	local what=$1
	shift
	if "$@" >"$work/said" 2>"$work/errors" && diff "$work/expected" "$work/said" >"$work/diff"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $what: ${*}"
		cat "$work/diff" "$work/errors"
	fi
}

# The tool finds the fault, and says so in these words.
finds() { # finds WHAT WORDS COMMAND...
	local what=$1 words=$2
	shift 2
	"$@" >"$work/said" 2>&1
	if grep -q "$words" "$work/said"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $what: does not say \"$words\": ${*}"
		cat "$work/said"
	fi
}

skip() { # skip WHAT
	skipped=$((skipped + 1))
	echo "SKIPPED: $1 is not installed"
}

compile() { # compile NAME FLAG...
	local name=$1
	shift
	cc -g -Wall -Wextra -Werror "$@" -o "$work/$name" calls.c -lpthread -lrt
}
compile plain || exit 2
"$work/plain" >"$work/expected" || exit 2
same 'the program itself' "${on_pool[@]}" "$work/plain"

for sanitizer in address undefined leak thread; do
	if ! compile "$sanitizer" -fsanitize=$sanitizer 2>"$work/errors"; then
		skip "the library of -fsanitize=$sanitizer"
		continue
	fi
	same "$sanitizer sanitizer" "${on_pool[@]}" "$work/$sanitizer"
	same "$sanitizer sanitizer, by way of a shell" "${on_pool[@]}" sh -c "$work/$sanitizer"
done
if [ -x "$work/address" ]; then
	finds 'address sanitizer' heap-use-after-free "${on_pool[@]}" "$work/address" overrun
	# What the user has asked for stays, and nothing is set that other tools read (afl-fuzz).
	"${on_pool[@]}" env | grep ASAN_OPTIONS >"$work/errors"
	finds 'options in the environment' '^no$' sh -c "test -s $work/errors && cat $work/errors || echo no"
	same 'address sanitizer with options' env ASAN_OPTIONS=detect_leaks=0 "${on_pool[@]}" "$work/address"
fi
[ -x "$work/thread" ] && finds 'thread sanitizer' 'data race' "${on_pool[@]}" "$work/thread" race

if command -v valgrind >/dev/null; then
	for tool in memcheck helgrind drd; do
		same "valgrind, $tool" "${on_pool[@]}" valgrind -q --tool=$tool --trace-children=yes --error-exitcode=9 \
			--suppressions="$suppressions" "$work/plain"
	done
	finds memcheck 'Invalid read' "${on_pool[@]}" valgrind --tool=memcheck "$work/plain" overrun
	finds helgrind 'Possible data race' "${on_pool[@]}" valgrind --tool=helgrind "$work/plain" race
	same 'valgrind around vshmem run' valgrind -q --tool=none --trace-children=yes "${on_pool[@]}" "$work/plain"
else
	skip valgrind
fi
if command -v gdb >/dev/null; then
	# The child of gdb writes to this file, gdb itself to another.
	same gdb sh -c '"$@" >'"$work"'/gdb 2>&1 && cat '"$work"'/out' - "${on_pool[@]}" gdb -batch -return-child-result \
		-ex 'handle SIGUSR1 nostop noprint' -ex "run >$work/out" -ex quit "$work/plain"
	finds 'gdb with a breakpoint' '#0  post' "${on_pool[@]}" gdb -batch -ex 'handle SIGUSR1 nostop noprint' \
		-ex 'break post' -ex run -ex 'backtrace 1' -ex continue "$work/plain"
else
	skip gdb
fi
if command -v strace >/dev/null; then
	same strace "${on_pool[@]}" strace -f -o "$work/strace" "$work/plain"
else
	skip strace
fi
finds 'the pool afterwards' 'all tables are consistent' "$vshmem" pool check "$pool"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
