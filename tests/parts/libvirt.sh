# What: what `pool show --as libvirt` prints, by libvirt itself
# Needs: guests qemu libvirt
# Builds: release
# Takes: 1 min
step libvirt 600 tests/libvirt/run.sh "$vshmem" definitions
