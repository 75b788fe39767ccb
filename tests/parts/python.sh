# What: the Python package, Python's own shared memory and locks, and modules of PyPI
# Needs: guests programs wheel
# Builds: tests release
# Takes: 3 min
posix="$vshmem run --pool $pool --share all,posix --"
step sysv-ipc 300 with_pool 1G tests/third_party/watched.sh "$vshmem" "$pool" tests/third_party/run_sysv_ipc.sh
step python-shm 600 with_pool 1G "$PWD/tests/third_party/run_python_multiprocessing.sh" "$posix" SharedMemory Lock Semaphore Condition
step posix-ipc 300 with_pool 1G "$PWD/tests/third_party/run_posix_ipc.sh" "$posix"
step wheel 300 scripts/wheel
step python 600 python/tests/run.sh "$vshmem"
