# What: other people's programs and suites, debuggers, benchmark kernels, libvshmem from C, stress and a short soak
# Needs: guests programs
# Builds: tests tools release
# Takes: 6 min
under="$vshmem run --pool $pool --" posix="$vshmem run --pool $pool --share all,posix --"
watched="tests/third_party/watched.sh $vshmem $pool"
# The lab, the benchmarks, and what the command does with them.
step tools 900 tests/unit.sh "$logs/built-tools.json" ONLY '/tools/|vshmem_cli .*/(bench|bench_run|top)-[0-9a-f]*$'
step oracle-at-once 600 with_pool 1G env SECONDS_EACH=60 JOBS=8 tests/conformance/compare.sh build/conformance/probe "$posix"
# A program that does not ask for POSIX has the kernel's and the C library's, through a library that passes it on.
step posix-not-shared 300 with_pool 1G env SECONDS_EACH=60 JOBS=8 EXPECTED_DIFFERENCES=/dev/null tests/conformance/compare.sh build/conformance/probe "$under" 'posix_*' 'mq_*' 'pthread_*'
step hostile-all 600 built crates/vshmem_ipc hostile --quiet
step signals-all 900 tests/signals/run.sh "$vshmem"
step stress 300 tests/stress/run.sh "$vshmem" 10
step debugging 300 tests/debugging/run.sh "$vshmem"
step util-linux 120 with_pool 1G $watched tests/third_party/run_util_linux.sh
step perl 300 with_pool 1G $watched tests/third_party/run_perl_ipc.sh
step stress-ng 300 with_pool 1G $watched tests/third_party/run_stress_ng.sh 5
step fakeroot 120 with_pool 1G $watched tests/third_party/run_fakeroot.sh
step postgres 300 with_pool 1G $watched tests/third_party/run_postgres.sh 3
step boost 300 with_pool 1G "$PWD/tests/third_party/run_boost_interprocess.sh" "$posix"
step kernels 300 make -s -C bench check
step kernels-on-a-pool 300 with_pool 1G make -s -C bench check RUN="$under"
step languages 300 with_pool 1G make -s -C examples check RUN="$under"
step library-c 300 tests/library/run.sh "$vshmem"
step team 600 tests/team/run.sh "$vshmem"
step heap 300 tests/heap/run.sh "$vshmem"
step soak 600 built tests/soak soak
