# What: unit and behaviour tests, crash points, the oracle, deaths, the command line, on this machine
# Needs: guests
# Builds: tests
# Takes: 8 min
posix="$vshmem run --pool $pool --share all,posix --"

# What measures is in `programs`.
measuring='vshmem_cli .*/(bench|bench_run|top)-[0-9a-f]*$'

step steps 60 tests/steps_check.sh
# Of the values that a hostile member writes, a third; `hostile-all`, of the part `programs`, writes more.
step unit 900 env HOSTILE_CASES=400 tests/unit.sh "$logs/built-product.json" BUT "$measuring"
step crash-points 900 built crates/vshmem_ipc crash --quiet
# As many cases at a time as there are processors.
step oracle 600 with_pool 1G env SECONDS_EACH=60 JOBS="$(nproc)" tests/conformance/compare.sh build/conformance/probe "$posix"
# By the library of System V's calls alone.
step oracle-sysv 600 with_pool 1G bash -c 'SECONDS_EACH=60 JOBS=$(nproc) tests/conformance/compare.sh build/conformance/probe \
	"$vshmem run --pool $pool --share all --" $(build/conformance/probe --list | grep -vE "^(posix|pthread|mq)_")'
step share 300 with_pool 1G tests/conformance/share/run.sh build/conformance/share "$vshmem" "$pool"
step limits 300 tests/conformance/limits.sh build/conformance/probe "$vshmem" "$pool-limits"
step many-waiters 300 tests/conformance/many_waiters.sh build/conformance/probe "$vshmem" "$pool-waiters"
step deaths 300 tests/deaths/run.sh "$vshmem" 8 64 8
