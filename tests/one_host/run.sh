#!/bin/bash
# `vshmem run --one-host` in two domains of one machine: two PID and IPC namespaces, whose pids collide.
#   run.sh VSHMEM
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1 pool=onehost$$ work=$(mktemp -d)
. tests/checks.sh
"$vshmem" pool create $pool --size 16M >/dev/null || exit 1
# What a domain does comes through its FIFO, and what it says goes to its file.
domain() {
	mkfifo "$work/in$1"
	unshare --pid --ipc --net --fork --kill-child --mount-proc "$vshmem" run --pool $pool --one-host -- \
		bash -c 'while read -r line; do eval "$line" 2>&1; echo "=$?"; done' <"$work/in$1" >"$work/out$1" 2>&1 &
	eval "exec $((6 + $1))>$work/in$1"
}
# inside N COMMANDS: their output in $said, their status.
inside() {
	local known line
	known=$(wc -l <"$work/out$1")
	echo "$2" >&$((6 + $1))
	until line=$(tail -n +$((known + 1)) "$work/out$1" | grep -m1 '^=[0-9]*$'); do
		[ -n "$(jobs -r)" ] || return 99
		sleep 0.01
	done
	said=$(tail -n +$((known + 1)) "$work/out$1" | grep -v '^=[0-9]*$')
	return "${line#=}"
}
explain() { echo "said: $said"; }
trap 'exec 7>&- 8>&-; wait; "$vshmem" pool rm $pool --force >/dev/null; rm -rf "$work"' EXIT
domain 1
domain 2

# both COMMANDS: what the one says, and what the other says, in $one and $two.
both() { inside 1 "$1" && one=$said && inside 2 "$1" && two=$said; }
alike() { both "$1" && [ -n "$one" ] && [ "$one" = "$two" ]; }
unlike() { both "$1" && [ -n "$one" ] && [ "$one" != "$two" ]; }
ok "one boot id" alike 'cat /proc/sys/kernel/random/boot_id'
ok "  not the kernel's" [ "$said" != "$(cat /proc/sys/kernel/random/boot_id)" ]
ok "one machine id, where it is a file or not" alike 'cat /etc/machine-id'
ok "one host id" alike hostid
ok "one IPC namespace" alike 'stat -L -c %i /proc/self/ns/ipc'
ok "  by its link" alike 'readlink /proc/self/ns/ipc'
ok "  by the process's number" alike 'readlink /proc/$$/ns/ipc && stat -L -c %i /proc/$$/ns/ipc'
ok "two PID namespaces" unlike 'stat -L -c %i /proc/self/ns/pid'
ok "two networks" unlike 'stat -L -c %i /proc/self/ns/net'

unlike 'echo $$'
first=$one second=$two
collide() { [ $((first & 4194303)) = $((second & 4194303)) ] && [ "$first" -gt 4194303 ] && [ "$second" -gt 4194303 ]; }
ok "pids that collide are two numbers" collide
ok "the other lives" inside 1 "kill -0 $second"
ok "  and shows its start time" inside 1 "awk '{ exit !(\$1 == $second && \$22 > 0) }' /proc/$second/stat"
ok "  and who it is" inside 1 "grep -q '^Pid:.$second\$' /proc/$second/status && test -d /proc/$second"
ok "  but takes no signal" inside 1 "! kill -TERM $second"
ok "    because that is not permitted" grep -qi 'not permitted' <<<"$said"
ok "  and shows nothing else" inside 1 "! cat /proc/$second/fd/0 && ! cat /proc/$second/maps"
ok "who never was does not" inside 1 "! kill -0 $((second + 4000)) && ! test -e /proc/$((second + 4000))"
ok "both numbers name one process" inside 1 'kill -0 $$ && kill -0 $(($$ & 4194303)) && test -d /proc/$$ && test -d /proc/$(($$ & 4194303))'
ok "children have the kernel's numbers" inside 1 'sleep 0 & [ $! -lt 4194304 ] && wait $!'
# Of the first process of a PID namespace the number stays 1: no parent.
cat >"$work/parent" <<'END'
[ "$(bash -c 'echo $PPID')" = $$ ]
END
ok "a child's parent is its parent" inside 1 "bash $work/parent"
ok "a process's own affinity, limits and priority" inside 1 'taskset -p $$ && prlimit --pid $$ --nofile && renice -n 0 -p $$'
inside 1 'ipcmk -M 64 >/dev/null; ipcs -m -p | awk "/root/ { print \$3 }"'
ok "the creator of a segment has such a number" [ "$said" -gt 4194303 ]
ok "  the same elsewhere" inside 2 "ipcs -m -p | grep -q ' $said '"
# Gone: killed from the outside, and reaped by its domain's agent.
inside 2 'sleep 1000 & echo $!'
third=$((second - (second & 4194303) + said))
ok "a third one lives" inside 1 "kill -0 $third && test -e /proc/$third/stat"
inside 2 'kill -9 $!; wait $! 2>/dev/null; :'
gone() { for _ in $(seq 200); do inside 1 "! kill -0 $third && ! test -e /proc/$third/stat" && return; sleep 0.05; done; return 1; }
ok "  until it has ended" gone

in_library() { nm -D --defined-only "$(dirname "$vshmem")/$1" | grep -qw "$2"; }
passes_by() { ! in_library libvshmem_preload_posix.so getpid && ! in_library libvshmem_preload_sysv.so stat && in_library libvshmem_preload.so getpid; }
ok "who does not ask for it gets a library without these calls" passes_by
echo "$passed passed, $failed failed"
[ $failed = 0 ]
