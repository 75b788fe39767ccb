#!/bin/sh
# fakeroot, whose library and daemon talk by two System V queues and a semaphore: run_fakeroot.sh ['CMD PREFIX']
prefix=$1 passed=0 failed=0
if ! command -v fakeroot-sysv >/dev/null || ! command -v faked-sysv >/dev/null; then
	echo "fakeroot-sysv is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# As an ordinary user, if there is a choice.
ordinary=
if [ "$(id -u)" = 0 ]; then
	ordinary='setpriv --reuid 65534 --regid 65534 --clear-groups'
	chown 65534:65534 "$work"
fi

try() { # what, expected output, command for sh
	said=$($prefix $ordinary fakeroot-sysv sh -c "cd $work && $3" 2>&1)
	if [ "$said" = "$2" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $1: $said, not $2"
	fi
}
try 'identity' 0 'id -u'
try 'an owner' '1234:4321' 'touch a && chown 1234:4321 a && stat -c %u:%g a'
try 'a device' 'c 4,6' 'mknod d c 4 6 && stat -c "%A %t,%T" d | sed "s/^\(.\)[^ ]*/\1/"'
try 'many files' 200 'mkdir m && cd m && for i in $(seq 200); do echo >f$i; done && chown 77:88 f* && stat -c %u:%g f* | grep -c 77:88'
try 'an archive keeps the owners' '77/88' 'mkdir t && touch t/f && chown 77:88 t/f && tar -cf t.tar t/f && tar -tvf t.tar --numeric-owner | awk "{ print \$2 }"'
try 'children at the same time' 100 'for i in 1 2 3 4; do (for j in $(seq 25); do touch c$i-$j; chown $i:$j c$i-$j; done) & done; wait; stat -c %u:%g c* | grep -vc "^0:0$"'
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
