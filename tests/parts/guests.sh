# What: guests of User Mode Linux: all promises across them, the lab, kills at each step inside a guest
# Needs: guests programs
# Builds: tests tools release
# Takes: 15 min
step acceptance-guests 2700 built tests/acceptance guests --nocapture --skip core::
step acceptance-host 900 built tests/acceptance host --nocapture
step crash-guests 600 built crates/vshmem_ipc crash_guests
step lab 600 built tools/lab guests
