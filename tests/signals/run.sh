#!/bin/bash
# What a signal, a small stack, a filter, another root or a namespace meets inside the library: tests/signals/run.sh 'VSHMEM COMMAND' [STEPS]
# STEPS is how many instructions of each call are tried, those just before the sleep one by one; 2000 takes some 15 minutes.
vshmem=$1 steps=$2 passed=0 failed=0 skipped=0
if [ -z "$vshmem" ]; then
	echo "usage: $0 'VSHMEM COMMAND' [STEPS]" >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
programs=${BUILD:-$here/../../build/signals}
make -s -C "$here" BUILD="$programs" || exit 1
pool=vshmem-signals-$$
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"; $vshmem pool rm "$pool" --force >/dev/null 2>&1' EXIT
$vshmem pool create "$pool" --size 32M >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }

ok() { # what, then a command on the pool that must succeed
	local what=$1
	shift
	timeout -k 5 "${LIMIT:-120}" $vshmem run --pool "$pool" ${SHARE:+--share "$SHARE"} -- "$@" >"$work/out" 2>&1 </dev/null
	local code=$?
	if [ $code = 0 ] && $vshmem pool check "$pool" >>"$work/out" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $what: exit status $code"
	fi
	cat "$work/out"
}
all_reaped() { # waits until nothing is left in a pool but places of those who were joining: agents look once a second
	local looks
	for ((looks = 0; looks < 300; looks++)); do
		$vshmem pool check "$1" >"$work/out" 2>&1
		grep -qvE 'held by a process that was joining$|all tables are consistent$' "$work/out" || return 0
		sleep 0.1
	done
	return 1
}
skip() {
	skipped=$((skipped + 1))
	echo "skipped: $1"
}

# Bound at once: what the dynamic linker does at a first call is none of ours.
for call in semop msgrcv msgrcv-type msgsnd mq_receive mq_send sem_wait pthread_cond_wait pthread_mutex_lock; do
	SHARE=all,posix LIMIT=${steps:+1500} ok "a signal at every instruction before a sleep in $call" \
		env VSHMEM_SPIN=0 LD_BIND_NOW=1 "$programs/step" "${steps:-70}" "$call"
done
# At few instructions: what differs is how the handler comes to be entered.
for way in signal __sysv_signal ssignal sigset syscall; do
	ok "a signal before a sleep in msgrcv, its handler installed by $way" \
		env HANDLER_BY=$way VSHMEM_SPIN=0 LD_BIND_NOW=1 "$programs/step" 3 msgrcv
done
for way in siginterrupt-later siginterrupt-before sigset; do
	SHARE=all,posix ok "a signal before a sleep in sem_wait, its handler installed by $way" \
		env HANDLER_BY=$way VSHMEM_SPIN=0 LD_BIND_NOW=1 "$programs/step" 3 sem_wait
done
ok "a handler on a small stack" "$programs/altstack"
ok "handlers that leave calls by longjmp" "$programs/jumps"
SHARE=all,posix ok "a thread that is cancelled while a call begins to wait" "$programs/cancelled"
ok "a cancellation of another thread ends no semop" "$programs/cancelled_beside"
ok "a signal while an exec is tried" "$programs/exec_tried"
ok "a signal while an exec is tried, and the segment goes" "$programs/exec_tried" gone
ok "a filter that comes while another thread is about to make a call" "$programs/beside" all
ok "a filter that fails beside one that is in force" "$programs/beside" failed
ok "a filter that ends the process" "$programs/confined" kill
ok "a filter before the first call" "$programs/confined" late
ok "a filter, and no descriptor left" "$programs/confined" closed
ok "a filter, and an mremap that fails" "$programs/confined" remap
ok "a filter, and a shmat over an attach that fails" "$programs/remapped" shmat
SHARE=all,posix ok "a filter, and an mmap over an attach that fails" "$programs/remapped" mmap
for call in futex mmap munmap mremap mprotect madvise fstat fallocate pwrite64 geteuid capget rt_sigprocmask; do
	ok "a filter that refuses $call" "$programs/confined" errno $call
done

agent="$vshmem ls --pool $pool --json | sed -n 's/.*\"agent\": *\\([0-9]*\\).*/\\1/p' | head -1"
ok "an agent is started again" "$programs/rooted" same "$agent"
ok "without descriptors none is started" "$programs/rooted" closed "$agent"
mkdir -p "$work/other" && cc -O -static -nostdlib -fno-stack-protector -o "$work/other/other" "$here/planted/planted.c" || exit 1
ok "a file in the place of the command's is not run" "$programs/rooted" replaced-late "$agent" "$work/other"
if [ "$(id -u)" = 0 ]; then
	SHARE=all,posix ok "a child with its parent's number opens a semaphore" "$programs/namesake"
	SHARE=all,posix ok "a child of vfork with its parent's number is another process" "$programs/housemate"
	ok "another user starts none" "$programs/rooted" user "$agent"
	# In the jail there is a program of another user where VSHMEM_COMMAND was, with all that it needs.
	command=$(readlink -f "${vshmem%% *}")
	mkdir -p "$work/jail$(dirname "$command")" "$work/jail/dev/shm" "$work/jail/dev"
	cp "$work/other/other" "$work/jail$command" && : >"$work/jail/dev/null" &&
		ok "a command in another root is not run" "$programs/rooted" jail "$agent" "$work/jail"
	for linker in lib64/ld-linux-x86-64.so.2 lib/ld-linux-aarch64.so.1; do
		mkdir -p "$work/jail/${linker%/*}" && cp "$work/other/other" "$work/jail/$linker"
	done
	ok "nor the dynamic linker in one that a thread has just gone to" "$programs/rooted" jail-late "$agent" "$work/jail"
	# On a pool of its own: a thread slot of one that had not come so far as to name its namespace stays for a while.
	$vshmem pool create "$pool-short" --size 32M >"$work/out" 2>&1 || cat "$work/out"
	if $vshmem run --pool "$pool-short" -- "$programs/short_lived" >"$work/out" 2>&1 && all_reaped "$pool-short"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED what namespaces leave that end while they join a pool is taken back"
		cat "$work/out"
	fi
	$vshmem pool rm "$pool-short" --force >/dev/null 2>&1
else
	skip "another root, another user, another PID namespace: needs root"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
