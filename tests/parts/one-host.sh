# What: programs that ask whether a peer is on their host; UCX, Boost, Qt and Zenoh between guests; file locks of two domains
# Needs: guests programs mpi
# Builds: release
# Takes: 3 min
step one-host 120 tests/one_host/run.sh "$vshmem"
step departure 120 tests/departure/run.sh "$vshmem"
step ucx 600 tests/ucx/run.sh "$vshmem" uml
step ucx-containers 300 tests/ucx/run.sh "$vshmem" containers
step locks 300 tests/locks/run.sh "$vshmem" containers
step locks-guests 600 tests/locks/run.sh "$vshmem" uml 3000
step between-guests 600 tests/third_party/between_guests.sh "$vshmem" uml
step between-containers 600 tests/third_party/between_guests.sh "$vshmem" containers
