# What: plans of guests for a machine's sockets, and what they do to QEMU guests
# Needs: guests qemu
# Builds: tests release
# Takes: 2 min
step plan 400 tests/plan/run.sh "$vshmem"
step plan-apply 400 tests/plan/apply.sh "$vshmem"
