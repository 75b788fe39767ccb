# What: the libfabric provider, and MPICH, Intel MPI and Open MPI over it
# Needs: guests programs mpi fabric
# Builds: release
# Takes: 4 min
step fabric 900 tests/fabric/run.sh "$vshmem" quick
step fabric-deaths 900 tests/fabric/deaths.sh "$vshmem" 20
step fabric-guests 900 tests/fabric/guests.sh "$vshmem" uml
