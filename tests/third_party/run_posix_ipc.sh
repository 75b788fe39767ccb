#!/bin/sh
# PyPI posix_ipc and the tests that it ships: run_posix_ipc.sh ['CMD PREFIX']. The prefix is to share POSIX objects, e.g.
# 'vshmem run --pool demo --share all,posix --'.
exec "$(dirname "$0")/pypi_tests.sh" posix_ipc 1.3.2 "$1"
