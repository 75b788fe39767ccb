# What: programs that ask whether a peer is on their host: pids of two domains, and UCX between guests and between containers
# Needs: guests programs mpi
# Builds: release
# Takes: 1 min
step one-host 120 tests/one_host/run.sh "$vshmem"
step ucx 600 tests/ucx/run.sh "$vshmem" uml
step ucx-containers 300 tests/ucx/run.sh "$vshmem" containers
