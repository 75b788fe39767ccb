# What: signals, filters, small stacks and other roots in the middle of a call; the examples
# Needs: guests
# Builds: tests
# Takes: 4 min
# At a few instructions of each call; `signals-all`, of the part `programs`, tries more.
step signals 600 tests/signals/run.sh "$vshmem" 12
step examples 300 with_pool 1G make -s -C examples check BUILD="$PWD/build/quick/examples" BIN_DIR="$bin"
step examples-on-a-pool 300 with_pool 1G make -s -C examples check BUILD="$PWD/build/quick/examples" BIN_DIR="$bin" RUN="$vshmem run --pool $pool --"
