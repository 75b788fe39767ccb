#!/bin/bash
# The units take from their services what those do not need, as `systemd-analyze security` counts it (0: everything, 10: nothing):
#   packaging/test_units.sh
# That they work with what is left is tested in a guest with systemd (tests/guests/stock_image). The last line counts.
cd "$(dirname "$0")/.." || exit 1
. tests/checks.sh
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if ! command -v systemd-analyze >/dev/null; then
	echo "    SKIPPED: test_units: systemd-analyze is not installed (scripts/setup packages)"
	echo "1 passed, 0 failed"
	exit 0
fi
for unit in packaging/systemd/*.service.in; do
	name=$(basename "$unit" .in)
	sed 's,@PREFIX@,/usr,' "$unit" >"$work/${name/@/@job7}"
done
# What serves guests needs their sockets, other users' pools and Xen's devices.
within() { # within TENTHS UNIT
	systemd-analyze security --offline=yes --no-pager --threshold="$1" "$work/$2"
}
ok "what gives doorbells to guests is confined" within 33 vshmem-serve@job7.service
ok "what makes a pool is confined" within 23 vshmem-pool@job7.service
ok "what notes the memory node is confined" within 13 vshmem-node.service
ok "no other unit is left out" [ "$(ls "$work"/*.service | wc -l)" = 3 ]
echo "$passed passed, $failed failed"
[ $failed = 0 ]
