# What: Podman containers that share a pool
# Needs: guests containers
# Builds: release
# Takes: 1 min
step containers 300 tests/containers/run.sh "$vshmem"
