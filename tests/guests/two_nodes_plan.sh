# The part of two_nodes_init.sh about a plan: a guest for each of the two nodes, with a pool on both in turn.
# guest NAME: its process
guest() { grep -l "^qemu-system-x86_64.-name.$1" /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3; }
# guest_nodes NAME: the nodes that its memory lies on
guest_nodes() { grep 'file=/memfd:' "/proc/$(guest "$1,")/numa_maps" | grep -o ' N[0-9]*=' | sort -u | tr -d ' N=' | xargs; }
# guest_policy NAME: the rule for it
guest_policy() { grep 'file=/memfd:' "/proc/$(guest "$1,")/numa_maps" | cut -d' ' -f2 | sort -u | xargs; }
# vcpu_cpus NAME: the CPUs of its vCPUs' threads, in the order of the vCPUs
vcpu_cpus() {
	for task in /proc/"$(guest "$1,")"/task/*; do
		echo "$(cat "$task/comm") $(sed -n 's/^Cpus_allowed_list:.//p' "$task/status")"
	done | grep '^CPU ' | sort | sed 's/.* //' | xargs
}
settings() {
	head -9 /proc/sys/kernel/numa_balancing /sys/kernel/mm/ksm/run
	find /dev/shm /run -mindepth 1 -type f | grep -v -e '/wait' -e agent | sort
	guest guest | wc -l
}
apply() { vshmem plan apply --plan "$1" --to qemu --emulated -- -nodefaults; }

echo 1 >/proc/sys/kernel/numa_balancing
before=$(settings)
check 'a plan is applied' '*plan plan: applied*' apply /plan.json
check 'guest1 has memory of node 0 alone' '0' guest_nodes guest1
check 'guest2 has memory of node 1 alone' '1' guest_nodes guest2
check 'and is bound to it' 'bind:1' guest_policy guest2
check 'vCPUs of guest1' '0 1' vcpu_cpus guest1
check 'vCPUs of guest2' '2 3' vcpu_cpus guest2
check 'its pool lies on both nodes in turn' 'node 0: 4*M, node 1: 4*M' facts job1
check 'pages are not moved' '0' cat /proc/sys/kernel/numa_balancing
check 'plan check: memory' '*guest1 memory: * MiB on node 0*guest2 memory: * MiB on node 1*' vshmem plan check
check 'plan undo' '*plan plan: undone*' vshmem plan undo
check 'everything is as before' "$before" settings
for moment in '"setting"' '"pool"' '"guest"'; do
	vshmem plan apply --plan /plan.json --to qemu --emulated -- -nodefaults >/dev/null 2>&1 &
	process=$!
	while ! grep -q "$moment" /run/vshmem/plan/plan.json 2>/dev/null && [ -e /proc/$process/exe ]; do usleep 5000; done
	kill -9 $process
	wait $process 2>/dev/null
	check "plan undo after apply was killed at $moment" '*plan plan: undone*' vshmem plan undo
	check 'everything is as before' "$before" settings
done

# What is measured runs on the plan's CPUs, and its pages lie there; where the plan has the memory on the other node, all have leaked.
# The program is one that has some memory for a while.
mkdir /bench
cat >/bench/dgemm <<'END'
#!/bin/sh
memory=$(dd if=/dev/zero bs=4096 count=100 2>/dev/null | tr '\0' x)
sleep 2
echo '{"mflops":'${#memory}'}'
END
chmod +x /bench/dgemm
measure() { # measure PLAN: the lines about pages
	vshmem bench run /tmp/study --plan="$1" --only dgemm-twice --repetitions 1 --programs /bench >/tmp/said 2>&1 || cat /tmp/said
	grep 'own memory' /tmp/said
	rm -rf /tmp/study
}
check 'bench: each process has pages of its node' '*node 0 *100.0 % on node 0 *0.0 %*node 1 *100.0 % on node 1 *0.0 %*' measure /plan.json
sed 's/"host_node": 0/"host_node": 7/; s/"host_node": 1/"host_node": 0/; s/"host_node": 7/"host_node": 1/' /plan.json >/tmp/other.json
check 'bench: pages that leak' '*node 0 *100.0 % on node 1 *100.0 %*node 1 *100.0 % on node 0 *100.0 %*' measure /tmp/other.json
