#!/bin/sh
# PyPI sysv_ipc: builds its sdist in a venv and runs the tests that it ships: run_sysv_ipc.sh ['CMD PREFIX']
prefix=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${BUILD:-$root/build/third_party}/sysv_ipc
version=1.2.0
python=$work/venv/bin/python

prepare() {
	[ -f "$work/sysv_ipc-$version.tar.gz" ] ||
		python3 -m pip download -q --no-deps --no-binary :all: -d "$work" "sysv_ipc==$version" || return 1
	[ -d "$work/sysv_ipc-$version" ] || tar -xzf "$work/sysv_ipc-$version.tar.gz" -C "$work" || return 1
	[ -x "$python" ] || python3 -m venv "$work/venv" || return 1
	"$python" -c 'import sysv_ipc' 2>/dev/null ||
		"$python" -m pip install -q --no-deps "$work/sysv_ipc-$version.tar.gz"
}

mkdir -p "$work" || exit 1
if ! prepare >"$work/log" 2>&1; then
	cat "$work/log"
	echo "sysv_ipc could not be fetched or built"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
cd "$work/sysv_ipc-$version" || exit 1
# One process for all tests; the summary is made from unittest's own result.
$prefix "$python" - <<'RUN'
import sys, unittest
suite = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
result = unittest.TextTestRunner(verbosity=1).run(suite)
failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
skipped = len(result.skipped)
sys.stderr.flush()
print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
sys.exit(failed != 0 or result.testsRun == 0)
RUN
