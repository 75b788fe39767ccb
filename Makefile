# vshmem: `make demo` and `make test` need no other step before them.
CARGO := $(shell command -v cargo || echo $(HOME)/.cargo/bin/cargo)
# C is compiled with as many compilers as there are processors.
MAKE_C = $(MAKE) -s -j$(shell nproc) -C

.PHONY: help setup setup-guests setup-all build programs mpi-programs demo test test-all test-rest test-long check check-c bench clean
help:
	@echo 'make demo     two virtual machines sharing System V IPC, and a table of what it costs (GUEST=qemu: under QEMU; GUEST=xen: domains of an emulated Xen)'
	@echo 'make demos    X windows, satellite time, PHP and PostgreSQL, unchanged, across virtual machines'
	@echo 'make test     whether it works here, in ten minutes: this machine, and two virtual machines (ONLY="oracle signals": these steps)'
	@echo 'make test-all      every test but those that take hours, in half an hour to an hour; it installs QEMU, Xen, MPI, Podman, libvirt'
	@echo 'make test-long     what takes longer: stress, soak, fuzzing, sanitizers, every device (two things at a time; hours)'
	@echo 'make test-suite SUITE=trixie   make demo and make test in a tree of another release of Debian (bookworm, trixie, forky; COMMAND="make test-mpi")'
	@echo 'make bench    the papers'"'"' measurements in some two minutes, and a report of them (vshmem-bench-DATE/report.html)'
	@echo 'make bench-guard BASE=main   whether a call has become slower since that commit (BASE: a commit, or a directory with a build)'
	@echo 'make build    target/release/vshmem and the libraries'
	@echo 'make third-party   other people'\''s programs on a pool, 30 s each (THIRD_PARTY_SECONDS)'
	@echo 'make wheel    the Python package, in build/wheel'
	@echo 'make check    formatting, lints, documentation, structure, dependencies; C without a warning'
	@echo 'make install  what was built, into PREFIX ($(PREFIX)); make uninstall'
	@echo 'make deb      packages for Debian, of what was built (make build programs); make tarball for other distributions'
	@echo
	@echo 'Parts of the tests; each installs and builds what it needs:'
	@tests/run --list

setup:
	@scripts/setup

# The kind of guests of the demo: uml, qemu or xen.
GUEST ?= uml
setup-guests:
	@scripts/setup guests $(filter qemu xen,$(GUEST))
setup-all:
	@scripts/setup guests programs mpi qemu demos containers libvirt wheel fabric $(if $(filter no,$(XEN)),,xen)
# setup-qemu, setup-mpi, ...: guests, and that word of scripts/setup.
setup-%:
	@scripts/setup guests $*

# What is for this machine's MPI, libfabric or kernel is left out, with a line, where it cannot be built; with WHOLE=1, as the tests
# have it, that is an error.
WHOLE ?=
build: setup
	@$(MAKE) -s -j2 libraries commands
	@$(MAKE) -s manual library
	@for part in 'openmpi' 'libfabric' 'kernel/ivshmem module BUILD=$(CURDIR)/build/ivshmem'; do \
		$(MAKE_C) $$part || { echo "$${part%% *}: not built; the rest is"; [ -z "$(WHOLE)" ] || exit 1; }; done

# At the same time: of each library the greater part is one thread's, that of what is optimized across crates.
.PHONY: libraries commands
COMMANDS = vshmem vshmem-lab vshmem-bench vshmem-manual
libraries:
	$(CARGO) build --release -p vshmem_preload -p vshmem_capi
commands:
	@CARGO_TERM_PROGRESS_WHEN=never $(CARGO) build --profile command $(COMMANDS:%=--bin %)
	@for name in $(COMMANDS); do \
		cmp -s target/command/$$name target/release/$$name || install -D target/command/$$name -t target/release || exit 1; done

# Examples and benchmark kernels: plain C.
programs: setup
	@$(MAKE_C) examples
	@$(MAKE_C) bench
# What the tests of MPI and of libfabric run.
mpi-programs: setup
	@for part in team mpi ucx fabric fabric/calls; do $(MAKE_C) tests/$$part || { echo "tests/$$part: not built; its tests are skipped"; [ -z "$(WHOLE)" ] || exit 1; }; done

# The Python package: one wheel for CPython 3.9 and later, for old C libraries too where PyPI's ziglang can be had.
.PHONY: wheel
wheel:
	@scripts/setup wheel
	@$(MAKE) -s libraries
	@scripts/wheel

demo: setup-guests build programs
	@GUEST=$(GUEST) demo/run

# Other people's programs in guests, each beside the kernel alone or the network.
.PHONY: demos
demos: setup-guests build
	@scripts/setup guests demos
	@demo/all target/release/vshmem

test:
	@tests/run quick
test-all:
	@tests/run all
# Without what `make test` runs.
test-rest:
	@tests/run rest
# The parts that `make help` lists.
PARTS = $(basename $(notdir $(wildcard tests/parts/*.sh)))
.PHONY: $(PARTS:%=test-%)
$(PARTS:%=test-%):
	@tests/run $(@:test-%=%)

# TEST_LONG names some of its steps.
TEST_LONG ?=
# In a tree of its own, build/suite/SUITE.
SUITE ?= trixie
COMMAND ?= make demo && make test
.PHONY: test-suite
test-suite:
	@scripts/setup packages
	@tests/suite/run $(SUITE) '$(COMMAND)'
test-long: setup-all setup-packages setup-slurm build programs mpi-programs wheel
	@tests/run_long $(TEST_LONG)

check: check-c
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps --workspace --document-private-items
	$(CARGO) test --quiet --profile quick --doc -p vshmem_wire
	$(CARGO) test --quiet --profile quick -p vshmem_structure
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check; else \
		echo 'not checked: advisories (cargo install --locked cargo-deny)'; fi
# All C, compiled anew, where a warning is an error.
check-c: build
	@for part in examples bench tests/conformance/probe tests/conformance/share tests/signals tests/stress tests/library tests/deaths \
		tests/acceptance/programs tests/soak/programs tests/containers tests/team tests/mpi tests/fabric tests/fabric/calls \
		tests/heap heap openmpi libfabric 'kernel/ivshmem module' 'kernel/ivshmem/selftest'; do \
		echo "$$part" && $(MAKE_C) $$part -B BUILD=$(CURDIR)/build/check/$${part%% *} WERROR=-Werror || exit 1; done

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
# What the library costs a program in calls that are not the pool's. SHARE='--share all': with those kinds shared.
SHARE ?=
.PHONY: bench-interposed
bench-interposed: build programs
	@bench/interposed/run target/release/vshmem $(SHARE)
# Emulated devices against para-virtual ones, by counts.
bench-devices:
	@scripts/setup guests qemu
	@bench/devices/run
# A pool's notifications in QEMU guests beside TCP's, by counts.
bench-notifications: setup-qemu build programs
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

# Every acceptance test, the whole oracle too, on QEMU guests with each device. `make test-qemu` has one device, and of the oracle
# what can differ by the link.
DEVICES ?= doorbell plain plain-sysfs dax
.PHONY: test-qemu-all
test-qemu-all: setup-programs setup-qemu build
	@status=0; for device in $(DEVICES); do \
		VSHMEM_TEST_ORACLE=whole VSHMEM_TEST_DEVICE=$$device VSHMEM_BIN_DIR=$(CURDIR)/target/release $(CARGO) test --quiet --profile quick -p vshmem_acceptance --test qemu -- --test-threads=1 --nocapture || status=1; \
	done; exit $$status

# The same under Xen, emulated: dom0 makes the pool and grants it to two guests.
.PHONY: test-xen-all
test-xen-all: setup-programs setup-xen build
	@$(CARGO) test --quiet --profile quick -p vshmem_lab --test xen
	@VSHMEM_TEST_ORACLE=whole VSHMEM_BIN_DIR=$(CURDIR)/target/release $(CARGO) test --quiet --profile quick -p vshmem_acceptance --test xen -- --test-threads=1 --nocapture

# Round trips between two of those guests, over pools and over libxenvchan: a table. With CPUS emulated processors, which should
# not be more than this machine has. Emulated: it shows that all work, not how fast they are.
CPUS ?= 2
.PHONY: bench-xen
bench-xen: setup-xen build programs
	@VSHMEM_TEST_CPUS=$(CPUS) VSHMEM_BIN_DIR=$(CURDIR)/target/release $(CARGO) test --quiet --profile quick -p vshmem_acceptance --test xen -- --nocapture beside_libxenvchan

# Other people's programs at length, and a table of how they fared. Some are fetched from Debian, nothing is installed.
THIRD_PARTY_SECONDS ?= 30
.PHONY: third-party
third-party: setup-programs build
	@tests/third_party/run_all.sh "$(CURDIR)/target/release/vshmem" $(THIRD_PARTY_SECONDS)

# MPI: a thousand jobs one after the other, 50 of them with a killed process; the HPC Challenge between guests; eight pairs on the
# CPUs that there are (PROCESSES=2 WHAT=full: one; WHAT=collectives), in turns.
PROCESSES ?= 16
WHAT ?= quick
.PHONY: mpi-cycles mpi-hpcc mpi-compare mpi-qemu
mpi-cycles: setup-mpi build programs mpi-programs
	@tests/mpi/cycles.sh "$(CURDIR)/target/release/vshmem"
mpi-hpcc: setup-mpi build programs mpi-programs
	@tests/mpi/hpcc.sh "$(CURDIR)/target/release/vshmem"
# The test programs between two QEMU guests.
mpi-qemu: setup-mpi setup-qemu build programs mpi-programs
	@tests/mpi/guests.sh "$(CURDIR)/target/release/vshmem" qemu 2
mpi-compare: setup-mpi build programs mpi-programs
	@tests/mpi/compare.sh "$(CURDIR)/target/release/vshmem" $(PROCESSES) 3 $(WHAT)

# How many files the way of a call leads through, and how often back: tests/walks/README.md. WALKS: some of them.
WALKS ?=
.PHONY: walks
walks: setup
	@tests/walks/run.sh $(WALKS)

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
