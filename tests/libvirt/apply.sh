# A part of run.sh, to be sourced: a plan carried out by libvirt, compared with what runs, and taken back.
plan_state() {
	virsh list --all --name | sort
	find /dev/shm -name 'vshmem.*' | sort
	find /run/vshmem/plan -mindepth 1 | sort
	cat /proc/sys/kernel/numa_balancing /sys/kernel/mm/ksm/run
}
plan_as_before() { [ "$(plan_state)" = "$before" ] || { diff <(echo "$before") <(plan_state); return 1; }; }
plan_apply() { "$vshmem" plan apply --plan "$work/plan.json" --to libvirt --emulated --pool-group kvm; }
# plan_killed_at KIND COUNT: apply is killed as soon as so many changes of that kind are noted.
plan_killed_at() {
	local applying end=$((SECONDS + 60))
	"$vshmem" plan apply --plan "$work/plan.json" --to libvirt --emulated --pool-group kvm >/dev/null 2>&1 &
	applying=$!
	until [ "$(grep -c "\"$1\": {" /run/vshmem/plan/plan.json 2>/dev/null || :)" -ge "$2" ] 2>/dev/null; do
		[ $SECONDS -lt $end ] || break
		sleep 0.005
	done
	kill -KILL $applying 2>/dev/null
	wait $applying 2>/dev/null
	[ $? = 137 ]
}
plan_running() { [ "$(virsh list --name | grep -c '^guest[12]$')" = 2 ]; }
plan_undo() { "$vshmem" plan undo; }

apply() {
	local state before
	check 'a plan of two guests' bash -c "'$vshmem' plan --topology 'synthetic:package:1 [numa(memory=536870912)] core:2 pu:1' --guests 2 \
		--host-cpus 0 --host-memory 256M --pool 16M --as json >'$work/plan.json'"
	mkdir -p -m 755 /run/vshmem
	mkdir -p -m 700 /run/vshmem/plan
	before=$(plan_state)
	check 'apply' plan_apply
	check 'both run' plan_running
	check 'and are as planned' "$vshmem" plan check
	check 'a second apply is refused' fails 'applied already' plan_apply
	check 'a vCPU is pinned elsewhere' virsh vcpupin guest2 0 0 --live
	check 'which is found, with its remedy' fails 'virsh vcpupin guest2 0 1 --live' "$vshmem" plan check
	check 'undo' plan_undo
	check 'as it was' plan_as_before
	for state in 'pool 1' 'domain 1' 'domain 2'; do
		# shellcheck disable=SC2086 # a kind and a count
		check "killed when $state is noted" plan_killed_at $state
		check 'undone' plan_undo
		check 'as it was' plan_as_before
	done
}
