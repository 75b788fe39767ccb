# What: every order of events in the lock-free protocols (loom); everything compiled for aarch64
# Needs:
# Builds:
# Takes: 8 min
# Linked as they are compiled: optimization across crates takes longer than the models.
step loom 900 env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=build/loom CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 "$cargo" test --quiet --release -p vshmem_mem -p vshmem_sync --test loom
step aarch64 600 scripts/check-aarch64
