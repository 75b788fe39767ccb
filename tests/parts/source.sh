# What: format, lints, documentation, structure
# Needs: programs
# Builds: tests
# Takes: 5 min
step format 60 "$cargo" fmt --all --check
step clippy 900 "$cargo" clippy --quiet --profile quick --workspace --all-targets -- -D warnings
step clippy-crash 600 "$cargo" clippy --quiet --profile quick -p vshmem_ipc --features crash-points --all-targets -- -D warnings
# The command's pages and libvshmem's have one directory, which cargo may remove twice at once when it is there.
step doc 300 bash -c 'rm -rf target/doc/vshmem; RUSTDOCFLAGS="-D warnings" "$cargo" doc --quiet --profile quick --no-deps --workspace --document-private-items'
# What must not compile is in documentation.
step places 300 "$cargo" test --quiet --profile quick --doc -p vshmem_wire
step structure 300 "$cargo" test --quiet --profile quick -p vshmem_structure
step units 60 packaging/test_units.sh
step docs 120 tests/docs/run.sh "$vshmem"
