# What: two guests of User Mode Linux: the three kinds, POSIX, deaths, a killed guest
# Needs: guests
# Builds: tests
# Takes: 3 min
step two-guests 900 built tests/acceptance guests --nocapture core::
