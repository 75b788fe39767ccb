#!/bin/sh
# PHP's extensions sysvshm, sysvsem, sysvmsg and shmop, with the tests of PHP's own source: run_php.sh ['CMD PREFIX']
prefix=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/third_party
work=${BUILD:-$root/build/third_party}/php
version=8.2
if ! command -v apt-get >/dev/null; then
	echo "no Debian packages here"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

fetch() {
	"$here/unpack_packages.sh" "$work/root" "php$version-cli" || return 1
	[ -f "$work/source/done" ] && return
	. /etc/os-release
	mkdir -p "$work/source/lists/partial" && cd "$work/source" || return 1
	archive=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $VERSION_CODENAME" 'Component: main' | head -1)
	[ -n "$archive" ] || return 1
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $VERSION_CODENAME main" >src.list
	own="-o Dir::Etc::sourcelist=$PWD/src.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$PWD/lists -o APT::Sandbox::User=root"
	apt-get $own update && apt-get $own source --download-only "php$version" || return 1
	tar -xf "$(ls php$version*.orig.tar.xz)" --strip-components=1 --wildcards '*/run-tests.php' '*/ext/sysv*/tests/*' '*/ext/shmop/tests/*' || return 1
	touch done
}

mkdir -p "$work"
if ! (fetch) >"$work/log" 2>&1; then
	cat "$work/log"
	echo "PHP could not be fetched"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
# What is installed is not unpacked.
php=$(ls "$work/root/usr/bin/php$version" "/usr/bin/php$version" 2>/dev/null | head -1)
extensions=$(dirname "$(ls "$work"/root/usr/lib/php/*/sysvmsg.so /usr/lib/php/*/sysvmsg.so 2>/dev/null | head -1)")
export LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu:$work/root/usr/lib/aarch64-linux-gnu
export TEST_PHP_EXECUTABLE=$php NO_INTERACTION=1 TEST_NON_ROOT_SYSV=1
cd "$work/source" || exit 1
# PHP opens its extensions with RTLD_DEEPBIND. Its semaphores are listed where they should be, or all else says nothing.
key=$((0x70687000 + $$ % 4096))
$prefix "$php" -n -d "extension_dir=$extensions" -d extension=sysvsem -r "exit(sem_get($key) ? 0 : 1);" || exit 1
if ! $prefix ipcs -s | grep -q "^$(printf '0x%08x' $key) "; then
	ipcrm -S $key
	echo "PHP's semaphores are not where they should be: its extensions have passed the library"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
$prefix ipcrm -S $key
# The tests share keys made by ftok of their own files: one at a time.
$prefix "$php" -n run-tests.php -q -n -d "extension_dir=$extensions" -d extension=sysvshm -d extension=sysvsem -d extension=sysvmsg \
	-d extension=shmop -d extension=posix --no-progress ext/sysvshm ext/sysvsem ext/sysvmsg ext/shmop >"$work/log" 2>&1
grep -E '^(FAIL|BORK|SKIP)' "$work/log"
awk '/^Tests passed/ { p = $4 } /^Tests failed/ { f = $4 } /^Tests skipped/ { s = $4 } /^Number of tests/ { n = $5 }
	END { if (n + 0 == 0) f++; print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"; exit f > 0 }' "$work/log"
