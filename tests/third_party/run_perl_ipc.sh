#!/bin/sh
# Perl's System V IPC tests, from Debian's perl source package, run by the installed perl: run_perl_ipc.sh ['CMD PREFIX']
#   cpan/IPC-SysV/t: the modules IPC::SysV, IPC::Msg, IPC::Semaphore, IPC::SharedMem
#   t/io:            perl's own shmget, semget, msgget and their like
prefix=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${BUILD:-$root/build/third_party}/perl
passed=0 failed=0 skipped=0

# A package list of our own: the system's sources.list need not have deb-src, and is not changed.
fetch() {
	[ -f "$work/done" ] && return
	. /etc/os-release
	mkdir -p "$work/lists/partial" && cd "$work" || return 1
	# Where this machine gets its packages from, asked for sources.
	archive=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $VERSION_CODENAME" 'Component: main' | head -1)
	[ -n "$archive" ] || return 1
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $VERSION_CODENAME main" >src.list
	own="-o Dir::Etc::sourcelist=$work/src.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$work/lists -o APT::Sandbox::User=root"
	apt-get $own update && apt-get $own source --download-only perl || return 1
	archive=$(ls perl_*.orig.tar.xz) && tar -xf "$archive" --strip-components=1 --wildcards \
		'*/cpan/IPC-SysV/t/*' '*/t/test.pl' '*/t/io/shm.t' '*/t/io/sem.t' '*/t/io/msg.t' '*/t/io/semctl.t' || return 1
	touch "$work/done"
}

mkdir -p "$work"
if ! command -v perl >/dev/null || ! perl -MIPC::SysV -e1 2>/dev/null; then
	echo "perl or its IPC::SysV is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
if ! (fetch) >"$work/log" 2>&1; then
	cat "$work/log"
	echo "the perl source package could not be fetched"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi

# TAP: plan, ok, not ok, "# SKIP" and "# TODO". A file that dies or runs short of its plan fails.
run() { # directory, test
	cd "$work/$1" || exit 1
	timeout -k 5 120 $prefix perl "$2" >"$work/tap" 2>"$work/errors"
	status=$?
	counts=$(awk -v status=$status '
		/^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; if (plan == 0) skip++ }
		/^ok .*# *(SKIP|skip)/ { skip++; seen++; next }
		/^ok / { ok++; seen++ }
		/^not ok .*# *TODO/ { skip++; seen++; next }
		/^not ok / { bad++; seen++ }
		END {
			if (bad == 0 && (status != 0 || seen + 0 < plan + 0)) bad++
			print ok + 0, bad + 0, skip + 0
		}' "$work/tap")
	set -- "$1/$2" $counts
	echo "$1: $2 passed, $3 failed, $4 skipped"
	if [ "$3" != 0 ]; then
		grep -A4 '^not ok' "$work/tap"
		cat "$work/errors"
		echo "exit status $status"
	fi
	passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

for test in ipcsysv msg sem shm; do
	run cpan/IPC-SysV "t/$test.t"
done
for test in shm sem msg semctl; do
	run t "io/$test.t"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
