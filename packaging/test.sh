#!/bin/bash
# The packages in a fresh Debian: installed, used by root and by a member of the group, purged, and nothing is left.
#   packaging/test.sh [all]     after `make build programs`; as root; needs mmdebstrap and a mirror of Debian
# ROOT_TAR=FILE: a root that mmdebstrap made before. Without `all`, vshmem-openmpi and vshmem-dkms stay out: what they depend on is large. The last line counts.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$PWD/build/packaging-test
name=${VSHMEM_TEST_NAME:-packaging-test}
suite=${SUITE:-bookworm}
want=(vshmem libvshmem0 libvshmem-dev vshmem-tools vshmem-libfabric)
# What the packages depend on is a part of the root before they come: what it leaves behind is not theirs.
base=man-db,systemd-standalone-sysusers,systemd-standalone-tmpfiles,passwd,util-linux,libgomp1
if [ "${1:-}" = all ]; then
	want+=(vshmem-openmpi vshmem-dkms)
	# As the package says which was built: of 4.1, or of 5.0.
	[ -e build/openmpi/prte_mca_rtc_vshmem.so ] && base=$base,libopenmpi40 || base=$base,libopenmpi3
	base=$base,dkms,linux-headers-$(dpkg --print-architecture),cloud-init
fi
passed=0 failed=0
check() { # check WHAT COMMAND...
	local what=$1 output
	shift
	if output=$("$@" 2>&1); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED: %s\n%s\n' "$what" "$output" | tail -40
	fi
}
finish() {
	echo "$passed passed, $failed failed"
	exit $((failed > 0))
}

command -v mmdebstrap >/dev/null || {
	printf '    SKIPPED: there is no mmdebstrap (apt-get install mmdebstrap)\n1 passed, 0 failed\n'
	exit 0
}
rm -rf "$work"
mkdir -p "$work"

# An installation below a directory of one's own, and taken away again.
tree=$work/tree
# As tests of the programs leave it.
for directory in bench examples; do echo left >build/$directory/left.out; done
check 'make install' make -s install DESTDIR="$tree" PREFIX=/opt/vshmem
check 'the units' bash -c "sed 's,/opt/vshmem,$tree/opt/vshmem,' $tree/opt/vshmem/lib/systemd/system/vshmem-pool@.service >$work/vshmem-pool@.service &&
	sed 's,/opt/vshmem,$tree/opt/vshmem,' $tree/opt/vshmem/lib/systemd/system/vshmem-serve@.service >$work/vshmem-serve@.service &&
	cp $tree/opt/vshmem/lib/systemd/system/vshmem-node.service $work/ &&
	said=\$(systemd-analyze verify --man=no $work/vshmem-pool@job7.service $work/vshmem-serve@job7.service $work/vshmem-node.service 2>&1 | grep vshmem); echo \"\$said\"; [ -z \"\$said\" ]"
check 'pkg-config' bash -c "grep -q '^libdir=/opt/vshmem/lib$' $tree/opt/vshmem/lib/pkgconfig/vshmem.pc"
check 'the soname' bash -c "readelf -d $tree/opt/vshmem/lib/libvshmem.so | grep -q 'SONAME.*libvshmem.so.0'"
exported() { nm -D --defined-only "$tree/opt/vshmem/lib/libvshmem.so" | awk '$3 ~ /@@/ { sub("@@", "@", $3); print $3 }' | sort; }
golden() { sed -n 's/^ \(vshmem_[^ ]*\) .*/\1/p' packaging/debian/libvshmem0.symbols | sort; }
check 'exported is what the list has, each with its version' diff <(exported) <(golden)
check 'and nothing besides' bash -c "! nm -D --defined-only $tree/opt/vshmem/lib/libvshmem.so | awk '\$2 != \"A\" { print \$3 }' | grep -v @@VSHMEM_"
check 'a program with the library' bash -c "printf '#include <vshmem.h>\nint main(void) { return vshmem_team_bytes(2, 64) == 0; }\n' >$work/own.c &&
	cc -o $work/own $work/own.c -I$tree/opt/vshmem/include -L$tree/opt/vshmem/lib -lvshmem && LD_LIBRARY_PATH=$tree/opt/vshmem/lib $work/own &&
	objdump -T $work/own | grep -q 'VSHMEM_0.* vshmem_team_bytes' &&
	cc -o $work/own-static $work/own.c -I$tree/opt/vshmem/include $tree/opt/vshmem/lib/libvshmem.a -lgcc_s -lpthread -lm -ldl && $work/own-static"
check 'programs of a benchmark' "$tree/opt/vshmem/bin/vshmem" bench sysv --list
check 'what tests have left beside the programs is not installed' bash -c "! find $tree -name '*.out' | grep ."
check 'make uninstall' make -s uninstall DESTDIR="$tree" PREFIX=/opt/vshmem
check 'nothing after make uninstall' bash -c "left=\$(find $tree ! -type d); echo \"\$left\"; [ -z \"\$left\" ]"

check 'make deb' make -s deb
# What most have no use for: those who measure MPI have it.
check 'vshmem-tools does not need Open MPI' bash -c "! dpkg-deb -f build/packages/vshmem-tools_*.deb Depends | grep openmpi"
# What the guides tell a user to install together: apt knows no other place for what these need of ours.
alone() {
	local line names name needed
	grep -rhoE 'apt(-get)? install [^#]*[.]deb' docs README.md | sort -u | while read -r line; do
		names=" $(grep -oE '[a-z0-9-]+_[*]' <<<"$line" | tr -d '_*' | tr '\n' ' ')"
		for name in $names; do
			for needed in $(dpkg-deb -f build/packages/"$name"_*.deb Depends | grep -oE '(lib)?vshmem[a-z0-9-]*' | sort -u); do
				[ "${names#* "$needed" }" != "$names" ] || echo "$line: $name needs $needed"
			done
		done
	done
}
check 'guides name packages with those that they need' bash -c "$(declare -f alone); said=\$(alone); echo \"\$said\"; [ -z \"\$said\" ]"
rm -f build/bench/left.out build/examples/left.out
if command -v lintian >/dev/null; then
	check 'lintian' lintian --fail-on error,warning build/packages/*.deb
fi
# The archive for other distributions, whose glibc may be too old.
rm -f build/packages/*.tar.xz
check 'make tarball' make -s tarball
tar -C "$work" -xf build/packages/vshmem-*.tar.xz
archive=$(echo "$work"/vshmem-*-linux-*)
check 'its programs run here' "$archive/install" --check
mkdir "$work/old"
printf '#!/bin/sh\necho glibc 2.17\n' >"$work/old/getconf"
chmod +x "$work/old/getconf"
check 'an older glibc is named, with the one that is needed' bash -c "! said=\$(PATH=$work/old:\$PATH $archive/install --check 2>&1) &&
	grep -q 'it needs glibc 2[.][0-9]* or later, and this machine has 2.17' <<<\"\$said\" && grep -q 'make build programs tarball' <<<\"\$said\""
root=$work/root
if [ -n "${ROOT_TAR:-}" ]; then
	mkdir "$root"
	check "unpack $ROOT_TAR" tar -C "$root" -xf "$ROOT_TAR"
else
	echo "a root of $suite..."
	check 'mmdebstrap' mmdebstrap --quiet --variant=minbase --include="$base" "$suite" "$root"
fi
[ $failed = 0 ] || finish
mkdir "$root/packages"
for package in "${want[@]}"; do cp build/packages/"$package"_*.deb "$root/packages/"; done
cp -r "$archive" "$root/packages/archive"
cp packaging/test_inside.sh "$root/packages/inside"
cp packaging/files.sh "$root/packages/files"
cp packaging/guest/cloud-init.yaml "$root/packages/"
# Its own processes and mounts, which end with it.
unshare --mount --pid --fork --kill-child --uts bash -c "
	hostname $name
	mount --make-rprivate / && mount -t proc proc $root/proc && mount -t tmpfs tmpfs $root/dev/shm &&
	chroot $root /bin/bash /packages/inside ${want[*]}" 2>&1 | tee "$work/inside.log"
counts=$(tail -1 "$work/inside.log")
case $counts in
*' passed, '*' failed')
	passed=$((passed + ${counts%% *}))
	counts=${counts#* passed, }
	failed=$((failed + ${counts%% *}))
	;;
*) failed=$((failed + 1)) ;;
esac
[ $failed != 0 ] || rm -rf "$work"
finish
