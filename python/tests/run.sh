#!/bin/bash
# The Python package's tests on a pool: python/tests/run.sh VSHMEM [WHEEL]
# With the machine's python3, or PYTHON. numpy is used if it is there, or can be installed. Ends with `N passed, N failed, N skipped`.
vshmem=$1 wheel=$2 pool=vshmem-python-$$
if [ -z "$vshmem" ]; then
	echo "usage: $0 VSHMEM [WHEEL]" >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
vshmem=$(realpath "$vshmem")
wheel=${wheel:-$(ls "$here"/../../build/wheel/vshmem-*.whl 2>/dev/null)}
if [ ! -e "$wheel" ]; then
	echo "there is no wheel: make wheel" >&2
	exit 1
fi
folder=$(mktemp -d)
trap '"$vshmem" pool rm "$pool" --force >/dev/null 2>&1; rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv" || exit 1
python=$folder/venv/bin/python
"$python" -m pip install --quiet --no-deps "$wheel" || exit 1
# With it, if it can be had, the tests of arrays; they say that they are skipped.
"$python" -m pip install --quiet numpy >/dev/null 2>&1
"$vshmem" pool create "$pool" --size 256M >/dev/null || exit 1
cd "$here" || exit 1
# Objects of the tests have names of their own, and none is to be left.
VSHMEM_COMMAND=$vshmem VSHMEM_POOL=$pool "$python" -W error -m unittest >"$folder/log" 2>&1
cat "$folder/log"
ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$folder/log")
number() { sed -n "s/^\(OK\|FAILED\).*$1=\([0-9]*\).*/\2/p" "$folder/log"; }
failures=$(number failures) errors=$(number errors) skipped=$(number skipped)
failed=$((${failures:-0} + ${errors:-0}))
[ -n "$ran" ] || failed=1
if ! "$vshmem" pool check "$pool"; then failed=$((failed + 1)); fi
left=$("$vshmem" ls --pool "$pool" --json | "$python" -c '
import json, sys
said = json.load(sys.stdin)
print(sum(len(said.get(kind, [])) for kind in ("segments", "sets", "queues", "semaphores")))')
if [ "$left" != 0 ]; then
	echo "FAILED: $left objects are left"
	"$vshmem" ls --pool "$pool"
	failed=$((failed + 1))
fi
echo "$((${ran:-0} - failed - ${skipped:-0})) passed, $failed failed, ${skipped:-0} skipped"
[ $failed = 0 ]
