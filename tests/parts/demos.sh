# What: X windows, satellite time, PHP and PostgreSQL across guests
# Needs: guests demos
# Builds: release
# Takes: 1 min
step demos 900 demo/all "$vshmem" --quick
