# To be sourced by job.bash, here and in tests/fabric: network namespaces that launchers take for machines, and a pool that they have.
# Wants $vshmem (the command), $name (of the pool and the namespaces), $count (of machines), $nodes, $log, and a function `skip`.
$nodes up "$name" "$count" 2>"$log" || { $nodes down "$name" "$count"; skip "no network namespaces here: $(tail -1 "$log")"; }
cleanup() {
	for node in $(seq "$count"); do ip netns pids "$name$node" 2>/dev/null | xargs -r kill -9 2>/dev/null; done
	$nodes down "$name" "$count"
	"$vshmem" pool rm "$name" --force >/dev/null 2>&1
	"$vshmem" pool rm "$name-small" --force >/dev/null 2>&1
	"$vshmem" pool rm "$name-mine" --force >/dev/null 2>&1
	rm -f "$log" "$log".*
}
trap cleanup EXIT
trap 'exit 130' INT TERM
# No segment is left, nor anybody who uses one: the dead are reaped by the domain's agent when it has seen them.
clean() {
	local try
	for try in $(seq 600); do
		"$vshmem" ls --pool "$name" --json >"$log.ls" && ! grep -q '"id":' "$log.ls" && break
		sleep 0.1
	done
	[ "$try" != 600 ] && "$vshmem" pool check "$name" >"$log" 2>&1
}
