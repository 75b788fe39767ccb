# What: Open MPI between two network namespaces and between guests
# Needs: guests programs mpi
# Builds: release
# Takes: 8 min
step mpi 900 tests/mpi/run.sh "$vshmem"
step mpi-moves 600 tests/mpi/moves.sh "$vshmem" 2
step mpi-guests 900 tests/mpi/guests.sh "$vshmem" uml 2 8
step mpi-bench 600 tests/mpi/bench.sh "$vshmem"
