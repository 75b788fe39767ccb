# vshmem: `make demo` and `make test` need no other step before them.
CARGO := $(shell command -v cargo || echo $(HOME)/.cargo/bin/cargo)

.PHONY: help setup setup-guests setup-all build programs demo test test-long check bench clean
help:
	@echo 'make demo     two virtual machines sharing System V IPC, and a table of what it costs (GUEST=qemu: under QEMU; GUEST=xen: domains of an emulated Xen)'
	@echo 'make demos    X windows, satellite time, PHP and PostgreSQL, unchanged, across virtual machines'
	@echo 'make test     every test that this machine can run'
	@echo 'make test-long     what takes longer: stress, soak, fuzzing, sanitizers, every device (two things at a time; hours)'
	@echo 'make bench    the papers'"'"' measurements in some two minutes, and a report of them (vshmem-bench-DATE/report.html)'
	@echo 'make bench-guard BASE=main   whether a call has become slower since that commit (BASE: a commit, or a directory with a build)'
	@echo 'make build    target/release/vshmem and the libraries'
	@echo 'make third-party   other people'\''s programs on a pool, 30 s each (THIRD_PARTY_SECONDS)'
	@echo 'make wheel    the Python package, in build/wheel'
	@echo 'make check    formatting, lints, documentation, structure, dependencies'
	@echo 'make install  what was built, into PREFIX ($(PREFIX)); make uninstall'
	@echo 'make deb      packages for Debian, of what was built (make build programs); make tarball for other distributions'

setup:
	@scripts/setup

# The kind of guests of the demo: uml, qemu or xen.
GUEST ?= uml
setup-guests:
	@scripts/setup guests $(filter qemu xen,$(GUEST))
setup-all:
	@scripts/setup guests qemu demos containers libvirt wheel fabric $(if $(filter no,$(XEN)),,xen)

build: setup
	$(CARGO) build --release
	@$(MAKE) -s manual library
	@$(MAKE) -s -C openmpi
	@$(MAKE) -s -C libfabric
	@$(MAKE) -s -C kernel/ivshmem module BUILD=$(CURDIR)/build/ivshmem || echo "kernel/ivshmem: not built; the rest is"

# Examples, benchmark kernels and the conformance probe: plain C.
programs: setup
	@$(MAKE) -s -C examples
	@$(MAKE) -s -C bench
	@$(MAKE) -s -C tests/conformance/probe
	@$(MAKE) -s -C tests/conformance/share
	@$(MAKE) -s -C tests/mpi
	@$(MAKE) -s -C tests/fabric
	@$(MAKE) -s -C tests/fabric/calls
	@$(MAKE) -s -C tests/team
	@$(MAKE) -s -C tests/signals
	@$(MAKE) -s -C tests/stress

# The Python package: one wheel for CPython 3.9 and later, for old C libraries too where PyPI's ziglang can be had.
.PHONY: wheel
wheel:
	@scripts/setup wheel
	$(CARGO) build --release -p vshmem_capi
	@scripts/wheel

demo: setup-guests build programs
	@GUEST=$(GUEST) demo/run

# Other people's programs in guests, each beside the kernel alone or the network.
.PHONY: demos
demos: setup-guests build
	@scripts/setup guests demos
	@demo/all target/release/vshmem

test: setup-all build programs
	@tests/run

# TEST_LONG names some of its steps.
TEST_LONG ?=
test-long: setup-all build programs wheel
	@scripts/setup packages slurm
	@tests/run_long $(TEST_LONG)

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps --workspace --document-private-items
	$(CARGO) test --quiet --profile quick -p vshmem_structure
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check; else \
		echo 'not checked: advisories (cargo install --locked cargo-deny)'; fi

bench: setup-guests build programs
	@target/release/vshmem bench --quick

# The reference run, on a quiet machine: everything, 15 repetitions, an hour or two, into DIR; again: resumes. PART=headline: what the
# headline claims of the papers rest on, some 25 minutes. bench-keep: its results, as they are kept in docs/results.
DIR ?= results
PART ?= whole
KEPT ?= reference
.PHONY: bench-reference bench-keep bench-devices bench-notifications bench-userland
bench-reference: build programs
	@scripts/setup guests bench
	@PART=$(PART) scripts/bench-reference target/release/vshmem $(DIR)
bench-keep:
	@target/release/vshmem bench report $(DIR) >/dev/null
	@cp $(DIR)/results.md docs/results/$(KEPT).md && cp $(DIR)/summary.csv docs/results/$(KEPT).csv
	@echo "docs/results: $(KEPT).md and $(KEPT).csv are those of $(DIR): name them in papers.md"
# A guest with nothing but its program beside one with a distribution's userland. As root, with mmdebstrap.
bench-userland: setup-guests build programs
	@bench/userland/run target/release/vshmem
# Emulated devices against para-virtual ones, by counts.
bench-devices:
	@scripts/setup guests qemu
	@bench/devices/run
# A pool's notifications in QEMU guests beside TCP's, by counts.
bench-notifications: setup-all build programs
	@bench/notifications/run target/release/vshmem

# This tree's build and that of BASE, a commit or a directory with another build, in turns for a minute: fails on what has
# become slower.
BASE ?= main
.PHONY: bench-guard
bench-guard: build programs
	@target/release/vshmem bench guard $(BASE)
# Whether it finds a delay, and nothing where there is none: ten runs of each, forty short ones; some nine minutes.
.PHONY: bench-guard-sure
bench-guard-sure: build programs
	@bench/guard/sure target/release/vshmem planted 10 5 && bench/guard/sure target/release/vshmem same 10 && \
		bench/guard/sure target/release/vshmem short 40

include packaging/install.mk

clean:
	$(CARGO) clean
	rm -rf build

# The acceptance tests on QEMU guests with each device; `make test` runs them with one, and the oracle with each.
DEVICES ?= doorbell plain plain-sysfs dax
.PHONY: test-qemu
test-qemu: setup-all build programs
	@status=0; for device in $(DEVICES); do \
		VSHMEM_TEST_DEVICE=$$device VSHMEM_BIN_DIR=$(CURDIR)/target/release $(CARGO) test --quiet --profile quick -p vshmem_acceptance --test qemu -- --test-threads=1 --nocapture || status=1; \
	done; exit $$status

# The same under Xen, emulated: dom0 makes the pool and grants it to two guests.
.PHONY: test-xen
test-xen: setup-all build programs
	@$(CARGO) test --quiet --profile quick -p vshmem_lab --test xen
	@VSHMEM_BIN_DIR=$(CURDIR)/target/release $(CARGO) test --quiet --profile quick -p vshmem_acceptance --test xen -- --test-threads=1 --nocapture

# Round trips between two of those guests, over pools and over libxenvchan: a table. With CPUS emulated processors, which should
# not be more than this machine has. Emulated: it shows that all work, not how fast they are.
CPUS ?= 2
.PHONY: bench-xen
bench-xen: setup-all build programs
	@VSHMEM_TEST_CPUS=$(CPUS) VSHMEM_BIN_DIR=$(CURDIR)/target/release $(CARGO) test --quiet --profile quick -p vshmem_acceptance --test xen -- --nocapture beside_libxenvchan

# Other people's programs at length, and a table of how they fared. Some are fetched from Debian, nothing is installed.
THIRD_PARTY_SECONDS ?= 30
.PHONY: third-party
third-party: build
	@tests/third_party/run_all.sh "$(CURDIR)/target/release/vshmem" $(THIRD_PARTY_SECONDS)

# MPI: a thousand jobs one after the other, 50 of them with a killed process; the HPC Challenge between guests; eight pairs on the
# CPUs that there are (PROCESSES=2 WHAT=full: one; WHAT=collectives), in turns.
PROCESSES ?= 16
WHAT ?= quick
.PHONY: mpi-cycles mpi-hpcc mpi-compare mpi-qemu
mpi-cycles: build programs
	@tests/mpi/cycles.sh "$(CURDIR)/target/release/vshmem"
mpi-hpcc: setup-guests build programs
	@tests/mpi/hpcc.sh "$(CURDIR)/target/release/vshmem"
# The test programs between two QEMU guests.
mpi-qemu: setup-all build programs
	@tests/mpi/guests.sh "$(CURDIR)/target/release/vshmem" qemu 2
mpi-compare: build programs
	@tests/mpi/compare.sh "$(CURDIR)/target/release/vshmem" $(PROCESSES) 3 $(WHAT)

# Longer than the same in `make test`: SECONDS of random deaths; every crash point in a guest that is killed, or paused and
# evicted (BOOTS=each: a boot for every one of them).
BOOTS ?= all
.PHONY: soak crash-guests
soak: build
	@SOAK_SECONDS=$(SECONDS) VSHMEM_BIN_DIR=$(CURDIR)/target/release $(CARGO) test --quiet --profile quick -p vshmem_soak

crash-guests: setup-guests
	@CRASH_GUEST_BOOTS=$(BOOTS) $(CARGO) test --quiet --profile quick -p vshmem_ipc --features crash-points --test crash_guests

# With nightly Rust and cargo-fuzz: each fuzz target for so many seconds.
SECONDS ?= 60
.PHONY: fuzz
fuzz: setup
	@fuzz/run $(SECONDS)
