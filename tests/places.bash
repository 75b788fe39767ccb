# To be sourced: two domains that have nothing but a pool in common, guests of a lab or sets of namespaces on this machine.
# Wants $vshmem, $name (of the pool and the lab), $places (uml, qemu or containers) and $bytes of the pool. All is taken down at exit.
#   inside N COMMAND...   in the one or the other
#   $run                  `vshmem run`, as it is called there
#   $device, $peer        their network, and where the other finds the first one there
#   received              bytes that have come to the second one by it
log=$(mktemp)
host=
leave_places() {
	[ -z "$host" ] || kill "$host"
	ip netns del "$name" 2>/dev/null
	"$vshmem" lab --name "$name" down >/dev/null 2>&1
	"$vshmem" pool rm "$name" --force >/dev/null
	rm -f "$log" "$log".*
}
trap leave_places EXIT
"$vshmem" pool create "$name" --size "$bytes" >/dev/null || exit 1
if [ "$places" = containers ]; then
	# One network of their own, so that they can find each other.
	ip netns add "$name" && ip -n "$name" link set lo up || exit 1
	inside() { shift; ip netns exec "$name" unshare --mount --pid --ipc --fork --kill-child --mount-proc "$@"; }
	run="$vshmem run --pool $name" device=lo peer=127.0.0.1
	# A container's agent ends with it. The host's sees that.
	"$vshmem" run --pool "$name" -- sleep infinity &
	host=$!
else
	timeout 600 "$vshmem" lab --name "$name" up --guest "$places" -n 2 --pool "$name" >"$log" 2>&1 || { cat "$log"; exit 1; }
	inside() { local guest=$1; shift; "$vshmem" lab --name "$name" exec "$guest" -- "$@"; }
	run="vshmem run" device=$([ "$places" = qemu ] && echo eth0 || echo vec0) peer=guest1
fi
received() { inside 2 cat /sys/class/net/$device/statistics/rx_bytes; }
# Whether no object is left, once what processes held that have ended is given back, and the pool is consistent.
is_empty() {
	for _ in $(seq 50); do [ "$("$vshmem" ls --pool "$name" --json | grep -c '"id"')" != 0 ] || break; sleep 0.1; done
	[ "$("$vshmem" ls --pool "$name" --json | grep -c '"id"')" = 0 ] && "$vshmem" pool check "$name" >"$log" 2>&1
}
# What a test leaves by intent.
clear() { "$vshmem" rm -a --pool "$name" >/dev/null 2>&1; }
