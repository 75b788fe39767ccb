#!/bin/sh
# PyPI sysv_ipc and the tests that it ships: run_sysv_ipc.sh ['CMD PREFIX']
exec "$(dirname "$0")/pypi_tests.sh" sysv_ipc 1.2.0 "$1"
