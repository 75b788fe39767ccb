#!/bin/sh
# Builds a package of PyPI from its sdist, in a venv, and runs the tests that it ships:
#   pypi_tests.sh NAME VERSION ['CMD PREFIX']
name=$1 version=$2 prefix=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${BUILD:-$root/build/third_party}/$name
source=$work/$name-$version
python=$work/venv/bin/python

fetch() {
	[ -f "$source.tar.gz" ] ||
		python3 -m pip download -q --no-deps --no-binary :all: -d "$work" "$name==$version"
}

build() {
	[ -d "$source" ] || tar -xzf "$source.tar.gz" -C "$work" || return 1
	[ -x "$python" ] || python3 -m venv "$work/venv" || return 1
	"$python" -c "import $name" 2>/dev/null || "$python" -m pip install -q --no-deps "$source.tar.gz"
}

mkdir -p "$work" || exit 1
if ! fetch >"$work/log" 2>&1; then
	cat "$work/log"
	echo "SKIPPED: $name $version could not be fetched: is there a network?"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
if ! build >"$work/log" 2>&1; then
	cat "$work/log"
	echo "$name could not be built"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
cd "$source" || exit 1
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
