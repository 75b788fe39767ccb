# What: guests of QEMU, emulated: with the driver and its doorbell, ivshmem-plain, dax; the driver's own test
# Needs: guests qemu
# Builds: tests tools release
# Takes: 25 min
step acceptance-qemu 2700 built tests/acceptance qemu --nocapture
step lab-qemu 900 built tools/lab qemu
step driver 600 tests/guests/driver_selftest "$vshmem"
step one-cpu 300 tests/guests/one_cpu "$vshmem"
step dax-label 900 tests/guests/dax_label "$vshmem"
step two-nodes 1500 tests/guests/two_nodes "$vshmem"
step mpi-qemu 900 tests/mpi/guests.sh "$vshmem" qemu 2
