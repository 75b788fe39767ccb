# vshmem: `make demo` and `make test` need no other step before them.
CARGO := $(shell command -v cargo || echo $(HOME)/.cargo/bin/cargo)
PREFIX ?= /usr/local

.PHONY: help setup build programs demo test check bench install clean
help:
	@echo 'make demo     two virtual machines sharing System V IPC, and a table of what it costs'
	@echo 'make test     every test that this machine can run'
	@echo 'make build    target/release/vshmem and the libraries'
	@echo 'make check    formatting, lints, dependencies'
	@echo 'make install  into PREFIX ($(PREFIX))'

setup:
	@scripts/setup

setup-guests:
	@scripts/setup guests

build: setup
	$(CARGO) build --release

# Examples, benchmark kernels and the conformance probe: plain C.
programs: setup
	@$(MAKE) -s -C examples
	@$(MAKE) -s -C bench
	@$(MAKE) -s -C tests/conformance/probe

demo: setup-guests build programs
	@demo/run

test: setup-guests build programs
	@tests/run

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

install: build
	install -D target/release/vshmem $(DESTDIR)$(PREFIX)/bin/vshmem
	install -D target/release/libvshmem_preload.so $(DESTDIR)$(PREFIX)/lib/vshmem/libvshmem_preload.so

clean:
	$(CARGO) clean
	rm -rf build

# Longer than `make test`, and with nightly Rust and cargo-fuzz: each fuzz target for so many seconds.
SECONDS ?= 60
.PHONY: fuzz
fuzz: setup
	@fuzz/run $(SECONDS)
