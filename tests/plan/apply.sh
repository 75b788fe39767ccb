#!/bin/bash
# A plan carried out on this machine: two emulated guests of QEMU are started and pinned, `check` finds them as planned and finds what
# is changed then, `undo` leaves the machine as it was, also after `apply` was killed.
#   tests/plan/apply.sh VSHMEM
# In namespaces of its own, so that guests and pools of others are not seen. The last line counts. Skips loudly what is not installed.
set -u
vshmem=$(realpath "${1:-target/release/vshmem}")
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
ok() { passed=$((passed + 1)); echo "ok: $1"; }
wrong() { failed=$((failed + 1)); echo "FAILED: $1"; }
finish() {
	echo "$passed passed, $failed failed"
	exit $((failed > 0))
}
skip() {
	echo "    SKIPPED: applying a plan: $1"
	passed=1
	finish
}
if [ "${2:-}" != inside ]; then
	[ "$(id -u)" = 0 ] || skip "only root can pin guests in namespaces of their own"
	for tool in qemu-system-x86_64 busybox cpio lstopo-no-graphics setsid taskset unshare; do
		command -v $tool >/dev/null || skip "$tool is not installed"
	done
	[ "$(nproc)" -ge 2 ] || skip "it needs two CPUs"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	unshare --mount --ipc --pid --fork --kill-child --mount-proc bash tests/plan/apply.sh "$vshmem" inside "$work"
	exit $?
fi
work=$3
. tests/guests/find_kernel.sh
find_kernel || skip "there is no kernel image, installed or unpacked (scripts/guest-kernel)"
mount --make-rprivate /
for place in /run /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $place; done
mkdir -m 755 /run/vshmem

root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys}
cp "$(command -v busybox)" "$root/bin/busybox"
printf '#!/bin/busybox sh\necho GUEST IS UP\nwhile :; do /bin/busybox sleep 1000; done\n' >"$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"

# What a plan may change, and who runs.
state() {
	head -99 /proc/sys/kernel/numa_balancing /sys/kernel/mm/ksm/run /sys/devices/system/node/node*/hugepages/*/nr_hugepages \
		/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor 2>/dev/null
	find /dev/shm /run -mindepth 1 | sort
	ps -e -o comm= | grep -v -e '^ps$' -e '^grep$' -e '^bash$' -e '^sleep$' -e '^sort$' | sort
}
within() { # within SECONDS COMMAND...: repeats it until it succeeds
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.2
	done
}
is_as_before() { [ "$(state)" = "$before" ]; }
is_up() { grep -qa 'GUEST IS UP' "$work/guest1.log" && grep -qa 'GUEST IS UP' "$work/guest2.log"; }
apply() { "${applying[@]}"; }
# reached KIND COUNT: so many changes of that kind are noted.
reached() { [ "$(grep -c "\"$1\": {" /run/vshmem/plan/plan.json 2>/dev/null)" -ge "$2" ] 2>/dev/null; }
# finds WHAT PATTERN: the check has such a line, and only wrong ones make it fail.
finds() {
	local said
	said=$("$vshmem" plan check) && { wrong "$1 is not found"; return; }
	if [ "$(grep -c '^WRONG' <<<"$said")" = 1 ] && grep '^WRONG' <<<"$said" | grep -q "$2"; then ok "$1 is found"; else wrong "$1: $said"; fi
}
thread() { # thread PID NAME: a thread of that process whose name begins so
	local task
	for task in /proc/"$1"/task/*; do
		[[ $(cat "$task/comm") != "$2"* ]] || { basename "$task"; return; }
	done
}

"$vshmem" plan --topology 'synthetic:package:1 [numa(memory=536870912)] core:2 pu:1' --guests 2 --host-cpus 0 --host-memory 256M --pool 16M \
	--as json >"$work/plan.json" || { wrong 'no plan'; finish; }
applying=("$vshmem" plan apply --plan "$work/plan.json" --to qemu --emulated -- -kernel "$image" -initrd "$work/initrd" -nographic
	-serial "file:$work/{guest}.log" -monitor none -append 'console=ttyS0 quiet panic=-1 no_timer_check mitigations=off')
"$vshmem" plan undo >/dev/null 2>&1
before=$(state)
if said=$(apply 2>&1); then ok 'two guests are started as planned'; else wrong "apply: $said"; finish; fi
if said=$("$vshmem" plan check); then ok "the check finds $(grep -c '^ok' <<<"$said") things as planned"; else wrong "check: $said"; fi
if within 240 is_up; then ok 'both guests boot'; else wrong "the guests do not boot: $(tail -5 "$work"/guest?.log)"; fi
if said=$("$vshmem" plan check); then ok 'and are still as planned'; else wrong "check: $said"; fi
! apply >/dev/null 2>&1 && ok 'a second apply is refused' || wrong 'a second apply'
first=$(pgrep -f -- '-name guest1,' | head -1)
vcpu=$(thread "$first" 'CPU 0/')
taskset -p -c 0-1 "$vcpu" >/dev/null
finds 'a vCPU with another affinity' "guest1 vCPU 0: thread $vcpu runs on CPUs 0-1; planned: on 0"
remedy=$("$vshmem" plan check | sed -n 's/.*remedy: `\(.*\)`$/\1/p')
bash -c "$remedy" >/dev/null
taskset -p -c 1 "$first" >/dev/null
finds 'an emulator thread on the other guest'\''s CPU' 'guest1 emulator threads'
taskset -p -c 0 "$first" >/dev/null
if "$vshmem" plan check >/dev/null; then ok 'the remedies help'; else wrong "the remedies: $("$vshmem" plan check)"; fi
kill "$first"
within 30 test ! -d "/proc/$first"
finds 'a missing guest' 'guest1: no process'
if said=$("$vshmem" plan undo 2>&1) && within 30 is_as_before; then ok 'undo leaves the machine as it was'; else
	wrong "undo: $said"
	diff <(echo "$before") <(state)
fi

# Killed as soon as a change is noted; a release has no named moments. What is killed at each is in crates/vshmem_cli/tests/plan_apply.
rounds=${ROUNDS:-3}
for state in 'pool 1' 'guest 1' 'guest 2'; do
	bad=0
	for round in $(seq "$rounds"); do
		"${applying[@]}" >/dev/null 2>&1 &
		pid=$!
		end=$((SECONDS + 60))
		# shellcheck disable=SC2086 # a kind and a count
		until reached $state || [ $SECONDS -ge $end ]; do sleep 0.005; done
		kill -KILL $pid 2>/dev/null
		wait $pid 2>/dev/null
		status=$?
		[ $status = 137 ] || { bad=$((bad + 1)); echo "it ended with $status before it was killed"; }
		said=$("$vshmem" plan undo 2>&1) || { bad=$((bad + 1)); echo "$said"; }
		within 30 is_as_before || { bad=$((bad + 1)); diff <(echo "$before") <(state); }
	done
	if [ $bad = 0 ]; then ok "killed $rounds times when $state was noted: as it was after undo"; else wrong "$state: $bad of $rounds times not as it was"; fi
done
finish
