# make install, uninstall, deb, tarball. They build and fetch nothing: what is to be installed is in BIN_DIR and build/.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
# Of the command alone: the same path on every architecture.
OWN_LIBDIR = $(PREFIX)/lib/vshmem
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
# Where the command and the libraries are.
BIN_DIR ?= target/release
SONAME = libvshmem.so.0
PRELOADED = $(addprefix $(BIN_DIR)/libvshmem_,preload.so preload_posix.so preload_sysv.so heap.so)
VERSIONED = $(BIN_DIR)/$(SONAME)
INSTALLED_SONAME = libvshmem.so.0.$(VERSION)
BENCH_PROGRAMS = $(filter-out %.out,$(wildcard build/bench/*)) build/mpi/dwarf_mpi build/mpi/pairs build/mpi/windows_speed
# Not what their tests have left there, nor those that show how to call the library, which have all of it in them, nor the one in
# Fortran, whose library few have: a package with it could not be installed without a mirror.
LIBRARY_PROGRAMS = ledger letters memory teams turns tally_static
EXAMPLE_PROGRAMS = $(filter-out %.out %/counter $(LIBRARY_PROGRAMS:%=build/examples/%),$(wildcard build/examples/*))
DKMS_SOURCES = core.c memory.c deaths.c pci.c vshmem.h Kbuild Makefile
# Where the programs lie that the pages of libvshmem name; a package of Debian has its own.
LIBRARY_EXAMPLES ?= $(PREFIX)/share/doc/vshmem/examples/library
SED = sed -e 's,@PREFIX@,$(PREFIX),g' -e 's,@LIBDIR@,$(LIBDIR),g' -e 's,@VERSION@,$(VERSION),g'
# install_edited SOURCE MODE TARGET
install_edited = install -d "$(dir $3)" && $(SED) $1 >"$3" && chmod $2 "$3"
# install_all MODE FILES DIRECTORY: those that there are
install_all = for file in $2; do [ ! -f "$$file" ] || install -D -m $1 "$$file" -t $(DESTDIR)$3 || exit 1; done
D = $(DESTDIR)

C_HEADERS = crates/vshmem_capi/include/vshmem.h crates/vshmem_capi/include/vshmem_team.h

.PHONY: manual library install install-built uninstall deb tarball

# Man pages and completions, from the commands themselves and from the header.
manual:
	@rm -rf build/manual
	@$(BIN_DIR)/vshmem-manual build/manual
	@mkdir -p build/manual/man3 build/manual/man5 build/manual/man7
	@awk -v version=$(VERSION) -v directory=build/manual/man3 -v examples=@EXAMPLES@ \
		-f packaging/man/libvshmem.awk $(C_HEADERS)
	@$(SED) packaging/man/vshmem-pools.5 >build/manual/man5/vshmem-pools.5
	@$(SED) packaging/man/fi_vshmem.7 >build/manual/man7/fi_vshmem.7

# The shared libraries that the linker makes of archives: one with versions of its symbols, and one with some of them.
library:
	@packaging/shared_library $(BIN_DIR)/libvshmem.a $(VERSIONED)
	@packaging/link_preload $(BIN_DIR)
	@$(MAKE) -s -C heap LIBRARY=$(abspath $(BIN_DIR))

install-built:
	@for file in $(BIN_DIR)/vshmem $(BIN_DIR)/vshmem-lab $(BIN_DIR)/vshmem-bench $(PRELOADED) $(VERSIONED) $(BIN_DIR)/libvshmem.a build/manual/man1/vshmem.1; do \
		[ -e "$$file" ] || { echo "$$file is not there. Run \`make build\` first, as the user who has Rust; install builds nothing" >&2; exit 1; }; done
	@[ -e build/bench/pingpong_sysv ] || \
		echo "build/bench is empty: \`vshmem bench\` will have no programs. \`make programs\` builds them" >&2

install: install-built
	install -D $(BIN_DIR)/vshmem $D$(PREFIX)/bin/vshmem
	install -D $(BIN_DIR)/vshmem-lab $(BIN_DIR)/vshmem-bench -t $D$(OWN_LIBDIR)
	install -D -m 644 $(PRELOADED) -t $D$(OWN_LIBDIR)
	install -D -m 644 $(VERSIONED) $D$(LIBDIR)/$(INSTALLED_SONAME)
	ln -sf $(INSTALLED_SONAME) $D$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $D$(LIBDIR)/libvshmem.so
	@# Guests of a lab are given the library from here.
	ln -sf "$$(realpath -sm --relative-to=$(OWN_LIBDIR) $(LIBDIR)/$(SONAME))" $D$(OWN_LIBDIR)/$(SONAME)
	install -D -m 644 $(BIN_DIR)/libvshmem.a $D$(LIBDIR)/libvshmem.a
	install -D -m 644 $(C_HEADERS) -t $D$(PREFIX)/include
	$(call install_edited,crates/vshmem_capi/vshmem.pc.in,644,$D$(LIBDIR)/pkgconfig/vshmem.pc)
	$(call install_all,644,build/openmpi/*.so,$(OWN_LIBDIR)/openmpi)
	$(call install_all,644,build/libfabric/libvshmem-fi.so,$(OWN_LIBDIR)/libfabric)
	install -D -m 644 libfabric/fi_ext_vshmem.h $D$(PREFIX)/include/rdma/fi_ext_vshmem.h
	$(call install_all,755,$(BENCH_PROGRAMS),$(OWN_LIBDIR)/bench)
	$(call install_all,755,$(EXAMPLE_PROGRAMS),$(OWN_LIBDIR)/examples)
	$(call install_all,644,docs/guide/*.md,$(PREFIX)/share/doc/vshmem/guide)
	$(call install_all,644,docs/reference/*.md,$(PREFIX)/share/doc/vshmem/reference)
	$(call install_all,644,examples/*.c examples/*.h,$(PREFIX)/share/doc/vshmem/examples)
	install -D -m 644 examples/library/*.c -t $D$(PREFIX)/share/doc/vshmem/examples/library
	install -D -m 644 packaging/job7.conf packaging/containers/kubernetes.yaml packaging/valgrind.supp -t $D$(PREFIX)/share/doc/vshmem/examples
	install -D -m 755 packaging/slurm/prolog packaging/slurm/epilog packaging/slurm/taskprolog -t $D$(OWN_LIBDIR)/slurm
	install -D -m 644 packaging/slurm/pools.sh -t $D$(OWN_LIBDIR)/slurm
	$(call install_all,644,$(DKMS_SOURCES:%=kernel/ivshmem/%),$(PREFIX)/src/vshmem-$(VERSION))
	$(call install_all,644,kernel/ivshmem/uapi/*.h,$(PREFIX)/src/vshmem-$(VERSION)/uapi)
	sed 's/^PACKAGE_VERSION=.*/PACKAGE_VERSION="$(VERSION)"/' kernel/ivshmem/dkms.conf >$D$(PREFIX)/src/vshmem-$(VERSION)/dkms.conf
	chmod 644 $D$(PREFIX)/src/vshmem-$(VERSION)/dkms.conf
	install -D -m 644 kernel/ivshmem/60-vshmem.rules -t $D$(PREFIX)/lib/udev/rules.d
	$(call install_edited,packaging/systemd/vshmem-pool@.service.in,644,$D$(UNITDIR)/vshmem-pool@.service)
	$(call install_edited,packaging/systemd/vshmem-serve@.service.in,644,$D$(UNITDIR)/vshmem-serve@.service)
	$(call install_edited,packaging/systemd/vshmem-node.service.in,644,$D$(UNITDIR)/vshmem-node.service)
	install -d $D$(UNITDIR)/multi-user.target.wants
	ln -sf ../vshmem-node.service $D$(UNITDIR)/multi-user.target.wants/vshmem-node.service
	$(call install_edited,packaging/systemd/make-pool.in,755,$D$(OWN_LIBDIR)/make-pool)
	install -D -m 644 packaging/systemd/vshmem.sysusers $D$(PREFIX)/lib/sysusers.d/vshmem.conf
	install -D -m 644 packaging/systemd/vshmem.tmpfiles $D$(PREFIX)/lib/tmpfiles.d/vshmem.conf
	install -d $D/etc/vshmem/pools.d
	$(call install_all,644,build/manual/man1/*,$(MANDIR)/man1)
	$(call install_all,644,build/manual/man3/*,$(MANDIR)/man3)
	sed -i 's,@EXAMPLES@,$(subst -,\\-,$(LIBRARY_EXAMPLES)),' $D$(MANDIR)/man3/vshmem_*.3
	$(call install_all,644,build/manual/man5/*,$(MANDIR)/man5)
	$(call install_all,644,build/manual/man7/*,$(MANDIR)/man7)
	install -D -m 644 build/manual/completions/vshmem.bash $D$(PREFIX)/share/bash-completion/completions/vshmem
	install -D -m 644 build/manual/completions/_vshmem -t $D$(PREFIX)/share/zsh/site-functions
	install -D -m 644 build/manual/completions/vshmem.fish -t $D$(PREFIX)/share/fish/vendor_completions.d
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig
	@echo "Installed. For the group, the directories and the units: systemd-sysusers; systemd-tmpfiles --create; systemctl daemon-reload; udevadm control --reload"

# What is the administrator's stays: files in /etc/vshmem, the group, pools.
uninstall:
	rm -f $D$(PREFIX)/bin/vshmem $D$(LIBDIR)/libvshmem.so $D$(LIBDIR)/$(SONAME) $D$(LIBDIR)/$(SONAME).* $D$(LIBDIR)/libvshmem.a
	rm -f $D$(LIBDIR)/pkgconfig/vshmem.pc $D$(PREFIX)/include/vshmem.h $D$(PREFIX)/include/vshmem_team.h $D$(PREFIX)/include/rdma/fi_ext_vshmem.h
	rm -rf $D$(OWN_LIBDIR) $D$(PREFIX)/share/doc/vshmem $D$(PREFIX)/src/vshmem-$(VERSION)
	rm -f $D$(PREFIX)/lib/udev/rules.d/60-vshmem.rules $D$(PREFIX)/lib/sysusers.d/vshmem.conf $D$(PREFIX)/lib/tmpfiles.d/vshmem.conf
	rm -f $D$(UNITDIR)/vshmem-pool@.service $D$(UNITDIR)/vshmem-serve@.service
	rm -f $D$(UNITDIR)/vshmem-node.service $D$(UNITDIR)/multi-user.target.wants/vshmem-node.service
	rm -f $D$(MANDIR)/man1/vshmem.1 $D$(MANDIR)/man1/vshmem-*.1 $D$(MANDIR)/man3/libvshmem.3 $D$(MANDIR)/man3/vshmem_*.3 $D$(MANDIR)/man5/vshmem-pools.5 $D$(MANDIR)/man7/fi_vshmem.7
	rm -f $D$(PREFIX)/share/bash-completion/completions/vshmem $D$(PREFIX)/share/zsh/site-functions/_vshmem
	rm -f $D$(PREFIX)/share/fish/vendor_completions.d/vshmem.fish
	rmdir --ignore-fail-on-non-empty $D/etc/vshmem/pools.d $D/etc/vshmem 2>/dev/null || true
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

# Packages for Debian, in build/packages.
deb: install-built
	@packaging/make-deb $(VERSION)

# For other distributions: everything below /usr, and a script that looks whether it runs there and installs it.
ARCHIVE = vshmem-$(VERSION)-linux-$(shell uname -m)
# The oldest glibc that has what the programs use of it.
GLIBC = objdump -T $$(find build/tarball -type f -exec sh -c 'head -c 4 "$$1" | grep -q ELF' _ {} \; -print) 2>/dev/null | \
	grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | cut -d_ -f2
tarball: install-built
	@umask 022; rm -rf build/tarball && mkdir -p build/tarball/$(ARCHIVE)/root build/packages
	@$(MAKE) -s install DESTDIR=$(CURDIR)/build/tarball/$(ARCHIVE)/root PREFIX=/usr >/dev/null
	@glibc=$$($(GLIBC)); sed -e 's,@VERSION@,$(VERSION),g' -e "s,@GLIBC@,$$glibc," -e 's,@MACHINE@,$(shell uname -m),' \
		packaging/tarball/install.in >build/tarball/$(ARCHIVE)/install && chmod 755 build/tarball/$(ARCHIVE)/install
	@tar -C build/tarball --owner=0 --group=0 --numeric-owner --sort=name -cJf build/packages/$(ARCHIVE).tar.xz $(ARCHIVE)
	@echo build/packages/$(ARCHIVE).tar.xz
