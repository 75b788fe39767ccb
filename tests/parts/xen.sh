# What: domains of Xen, in an emulated machine
# Needs: guests xen
# Builds: tests release
# Takes: 18 min
# With all its domains on one processor it takes its time, so it goes before others. `make test-xen-all` has more: every case of the
# oracle in every domain, round trips beside libxenvchan, and the lab's own tests. XEN=no leaves it out.
if [ "${steps:-}" = list ] || { [ "${XEN:-}" != no ] && [ -x "${VSHMEM_LAB_XEN:-/var/lib/vshmem/xen}/files/usr/sbin/xl" ]; }; then
	step acceptance-xen 2700 nice -n -10 bash -c 'built tests/acceptance xen --nocapture --skip dom0_behaves --skip guest2_behaves --skip libxenvchan'
elif is_wanted acceptance-xen; then
	echo "    SKIPPED: domains of Xen: it is not unpacked (scripts/setup guests xen), or XEN=no"
	skipped=$((skipped + 1))
fi
