#!/bin/sh
# util-linux: makes objects with ipcmk, removes them with ipcrm by id and by key, looks with ipcs:
#   run_util_linux.sh ['CMD PREFIX']
# ipcs reads /proc/sysvipc before it asks the calls. Behind a prefix that file must not be there to be read: it tells of the
# kernel's objects, of which one is made here for the purpose.
prefix=$1 passed=0 failed=0 skipped=0

check() { # what, then a command that must succeed
	what=$1
	shift
	if "$@" >/dev/null 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $what"
	fi
}

refuse() { # what, then a command that must fail
	what=$1
	shift
	if "$@" >/dev/null 2>&1; then
		failed=$((failed + 1))
		echo "FAILED $what: it should not have succeeded"
	else
		passed=$((passed + 1))
	fi
}

lists() { # kind letter, id
	$prefix ipcs "-$1" | awk -v id="$2" '$2 == id { found = 1 } END { exit !found }'
}

number_of() {
	sed 's/.*: *//'
}

for tool in ipcmk ipcrm ipcs perl; do
	if ! command -v $tool >/dev/null; then
		echo "$tool is not installed"
		echo "0 passed, 0 failed, 1 skipped"
		exit 0
	fi
done

kind() { # letter of ipcs and ipcrm -x, capital of ipcrm -X, ipcmk's options, perl call that makes KEY
	id=$($prefix ipcmk $3 | number_of)
	check "ipcmk $3" test -n "$id"
	check "ipcs -$1 shows $id" lists "$1" "$id"
	if [ -n "$prefix" ]; then
		outside=$(ipcmk $3 | number_of)
		refuse "ipcs -$1 shows $outside of the kernel" lists "$1" "$outside"
		check "ipcs -$1 -i $id" $prefix ipcs "-$1" -i "$id"
		ipcrm "-$1" "$outside"
	fi
	check "ipcrm -$1 $id" $prefix ipcrm "-$1" "$id"
	refuse "ipcrm -$1 $id again" $prefix ipcrm "-$1" "$id"
	refuse "ipcs -$1 after removal" lists "$1" "$id"

	key=$((0x56000000 + $$ % 65536 * 16 + $5))
	check "an object with key $key" $prefix perl -e "defined($4) or die" "$key"
	check "ipcrm -$2 $key" $prefix ipcrm "-$2" "$key"
	refuse "ipcrm -$2 $key again" $prefix ipcrm "-$2" "$key"
}

# 01000 is IPC_CREAT.
kind m M '-M 12345' 'shmget($ARGV[0], 100, 01600)' 1
kind s S '-S 7' 'semget($ARGV[0], 3, 01600)' 2
kind q Q '-Q' 'msgget($ARGV[0], 01600)' 3

# Options: mode, two kinds at once, limits and summary.
ids=$($prefix ipcmk -M 4096 -S 2 -p 0640 | number_of)
set -- $ids
check "ipcmk -M -S -p makes two" test $# = 2
check "ipcrm of both at once" $prefix ipcrm -m "$1" -s "$2"
check "ipcs -l" $prefix ipcs -l
check "ipcs -u" $prefix ipcs -u
refuse "ipcrm of an id that never was" $prefix ipcrm -m 2147483647
refuse "ipcrm of a missing key" $prefix ipcrm -Q 0x7fffabcd

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
