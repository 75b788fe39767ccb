#!/bin/bash
# The examples of the packages between two Podman containers of a Debian image, which mmdebstrap makes with the packages.
#   tests/containers/debian.sh VSHMEM    after `make deb`; as root; needs mmdebstrap and a mirror of Debian
# PACKAGES: where the packages are (build/packages). The last line counts: `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$(realpath "$1") pool=debian-$$ packages=${PACKAGES:-build/packages}
work=$(mktemp -d /tmp/vshmem-containers.XXXXXX) || exit 1
. tests/containers/engine.sh

# Instead of the small tree of the other tests.
tree() {
	local package debs=() name
	for name in vshmem libvshmem0 vshmem-tools; do
		for package in "$packages/${name}"_*.deb; do debs+=("$package"); done
	done
	mmdebstrap --quiet --variant=minbase --customize-hook='mkdir "$1/packages"' \
		--customize-hook="copy-in ${debs[*]} /packages" \
		--customize-hook='chroot "$1" sh -c "apt-get install -y --no-install-recommends /packages/*.deb >/dev/null"' \
		--customize-hook='rm -rf "$1/packages"' "${SUITE:-bookworm}" - 2>"$work/mmdebstrap.log"
}
command -v mmdebstrap >/dev/null || skip "no mmdebstrap here (scripts/setup containers)"
[ -e "$(ls "$packages"/vshmem-tools_*.deb 2>/dev/null | head -1)" ] || skip "no packages in $packages (make deb)"
start_engine

"$vshmem" pool create "$pool" --size 32M --mode 0666 >/dev/null || exit 1
"$vshmem" agent --keep --pool "/dev/shm/vshmem.$pool"
given=($("$vshmem" pool show "$pool" --as podman 2>/dev/null))
example() { # example NAME WORDS...: in a container of its own
	local name=$1
	shift
	container --rm "${given[@]}" "$image" vshmem run "/usr/lib/vshmem/examples/$name" "$@"
}
between_two() {
	local producer
	example producer -n 2000 & producer=$!
	example consumer -n 2000 | tee /dev/stderr | grep -q '2000 items taken, 0 wrong' && wait $producer
}
ok "the packages are installed in the image" container --rm "$image" vshmem --version
ok "2,000 items go from a producer in one container to a consumer in another" between_two
ok "the pool is as it should be" "$vshmem" pool check "$pool"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
