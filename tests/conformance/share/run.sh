#!/bin/bash
# What --share says: tests/conformance/share/run.sh SHARE-PROGRAM 'VSHMEM COMMAND' POOL
# The pool must be empty, and not used by others.
probe=$1 vshmem=$2 pool=$3 passed=0 failed=0 skipped=0
if [ ! -x "$probe" ] || [ -z "$pool" ]; then
	echo "usage: $0 SHARE-PROGRAM 'VSHMEM COMMAND' POOL" >&2
	exit 2
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

ok() { # what, then a command that must succeed
	local what=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $what: $*"
		cat "$work/out"
	fi
}
shared() { # share, command...
	local share=$1
	shift
	timeout 120 $vshmem run --pool "$pool" --share "$share" -- "$@"
}

# Every combination of kinds, whole; what a range of keys adds to them is looked at below.
for combination in 'all 1 1 1' 'shm 1 0 0' 'sem 0 1 0' 'msg 0 0 1' 'shm,sem 1 1 0' 'shm,msg 1 0 1' 'sem,msg 0 1 1' 'msg,sem,shm 1 1 1' \
	'shm,key=0x100-0x1ff 1 0 0' 'key=0x100-0x1ff 0 0 0' 'key=0x100-0x1ff,sem,msg 0 1 1' 'key=0x100-0x1ff,all 1 1 1' \
	'posix 0 0 0' 'all,posix 1 1 1' 'posix-shm,sem,mq 0 1 0'; do
	set -- $combination
	ok "--share $1" shared "$1" "$probe" kinds "$2" "$3" "$4"
done

# Ranges, hexadecimal and decimal, from edge to edge. IPC_PRIVATE (0) lies in none.
low=$((0x61000000 + $$ % 65536 * 256))
high=$((low + 9))
hex() { printf '0x%x' "$1"; }
keys() { # share, IN=... OUT=...
	ok "--share $1" shared "$1" "$probe" keys "${@:2}"
}
edges="OUT=$((low - 1)) IN=$low IN=$((low + 4)) IN=$high OUT=$((high + 1)) OUT=0"
keys "key=$low-$high" $edges
keys "key=$(hex $low)-$(hex $high)" $edges
keys "key=$low-$(hex $high)" $edges
keys "key=$low-$low" "IN=$low" "OUT=$((low + 1))"
keys "key=$low-$((low + 6)),key=$((low + 3))-$high" $edges
keys "key=$low-$((low + 2)),key=$((low + 4))-$high" "IN=$((low + 2))" "OUT=$((low + 3))" "IN=$((low + 4))"
keys "key=0-4294967295" "IN=$low" "IN=-1" "IN=1" "IN=0x7fffffff" "IN=0x80000000" OUT=0
keys "key=0x80000000-0xffffffff" "OUT=$low" "IN=-2" "IN=0x80000000" "OUT=0x7fffffff"
keys "key=-$high--$low" "OUT=$((-high - 1))" "IN=-$high" "IN=-$low" "OUT=$((-low + 1))" "OUT=$low"
keys "key=-2147483648--1" "IN=-2147483648" "IN=-1" "OUT=$low"
# A kind that is shared whole does not look at keys.
ok "a kind and a range" shared "msg,key=$low-$high" "$probe" kinds 0 0 1

# Both places in one process.
mix="key=$low-$high" in=$low out=$((high + 1))
ok "walks and totals" shared "$mix" "$probe" walk $in $out
ok "attaches here and there" shared "$mix" "$probe" detach $in $out
ok "children" shared "$mix" "$probe" family $in $out

# Whose locks and semaphores in a segment are: their address says it, for the kinds that are shared.
locks=${probe%/*}/locks
for words in all,posix shm,pthread,posix-sem; do
	ok "locks in the pool's memory, --share $words" shared $words "$locks" pool
done
ok "locks in the pool's memory that are not shared" shared all "$locks" libc

# Paths below /dev/shm: the pool first, then the kernel; a new file is the pool's.
here=/dev/shm/share-$$
trap 'rm -rf "$work" "$here"*' EXIT
paths() { # words, script: with $1 for the beginning of a path
	shared "$1" sh -c "$2" sh "$here" "$work/moved"
}
programs=$(dirname "$0")/programs.sh
"$programs" share-$$-p >"$work/kernel" 2>&1
shared posix "$programs" share-$$-p >"$work/pool" 2>&1
ok "programs say the same" diff "$work/kernel" "$work/pool"
ok "a new file" paths posix 'echo pool >$1-a && test "$(cat $1-a)" = pool'
ok "is not the kernel's" test ! -e $here-a
ok "and another program's" paths posix 'test "$(cat $1-a)" = pool'
echo kernel >$here-a
echo kernel >$here-b
mkdir $here-folder
ok "the pool first" paths posix 'test "$(cat $1-a)" = pool && test $(ls /dev/shm | grep -cxF ${1##*/}-a) = 1'
ok "then the kernel" paths posix 'test "$(cat $1-b)" = kernel && ls /dev/shm | grep -qxF ${1##*/}-b'
ok "O_EXCL looks at both" paths posix 'set -C; ! { echo new >$1-b; } 2>/dev/null && ! { echo new >$1-a; } 2>/dev/null'
ok "a file of the kernel's is written where it is" paths posix 'echo more >>$1-b && rm $1-a && test "$(cat $1-a)" = kernel'
ok "by the program" grep -q more $here-b
ok "no folder is replaced" paths posix 'echo new >$1-c && ! mv -T $1-c $1-folder 2>/dev/null && test -d $1-folder'
ok "an object takes the place of a file" paths posix 'mv $1-c $1-b && test "$(cat $1-b)" = new'
ok "of the kernel's" test ! -e $here-b
ok "mv between both" paths posix 'mv $1-b $2 && mv $2 $1-b && test "$(cat $1-b)" = new && rm $1-b'
ok "files in folders" paths posix 'echo below >$1-folder/x'
ok "are the kernel's" grep -q below $here-folder/x
ok "a name as pools have it" paths posix 'echo x >/dev/shm/vshmem-${1##*/}'
ok "is the kernel's" rm /dev/shm/vshmem-${here##*/}
ok "a semaphore that is not shared" paths posix-shm 'echo x >/dev/shm/sem.${1##*/}'
ok "is the kernel's" rm /dev/shm/sem.${here##*/}
ok "a beginning of names" paths "posix=${here##*/}-in,posix=none" 'echo in >$1-in && echo out >$1-out'
ok "says what is the pool's" test ! -e $here-in -a -e $here-out
ok "all of it" paths posix 'rm $1-in $1-out'

# Ids through a pipe to a peer that was started on its own.
shared "$mix" "$probe" give $in $out >"$work/ids" 2>"$work/giver" &
giver=$!
while [ ! -s "$work/ids" ] && kill -0 $giver 2>/dev/null; do sleep 0.05; done
ok "a peer uses ids that it was given" shared "$mix" "$probe" tell $(cat "$work/ids")
ok "and the giver notices" wait $giver
cat "$work/giver"

# ipcs and ipcrm see both, of a kind that is here and there; and only the kernel's of one that is not shared.
if command -v ipcs >/dev/null && command -v ipcrm >/dev/null && command -v ipcmk >/dev/null; then
	listed() { # share, letter, id
		shared "$1" ipcs "-$2" | awk -v id="$3" '$2 == id { found++ } END { exit found != 1 }'
	}
	not_listed() { ! listed "$@"; }
	while read -r letter capital options; do
		ours=$(shared all ipcmk $options | sed 's/.*: *//') theirs=$(ipcmk $options | sed 's/.*: *//')
		kind=$(case $letter in m) echo shm ;; s) echo sem ;; q) echo msg ;; esac)
		others=$(echo shm,sem,msg | sed "s/$kind//; s/,,/,/; s/^,//; s/,$//")
		ok "ipcs -$letter lists the pool's" listed "$mix" $letter "$ours"
		ok "ipcs -$letter lists the kernel's" listed "$mix" $letter "$theirs"
		ok "ipcs -$letter of a kind that is shared" not_listed $kind $letter "$theirs"
		ok "ipcs -$letter of a kind that is not" not_listed $others $letter "$ours"
		ok "ipcs -$letter of a kind that is not" listed $others $letter "$theirs"
		ok "ipcs -$letter -i, pool" shared "$mix" ipcs -$letter -i "$ours"
		ok "ipcs -$letter -i, kernel" shared "$mix" ipcs -$letter -i "$theirs"
		ok "ipcs -u, -l" shared "$mix" sh -c 'ipcs -u && ipcs -l'
		ok "ipcrm -$letter of the pool's" shared "$mix" ipcrm -$letter "$ours"
		ok "it is gone" not_listed all $letter "$ours"
		ok "ipcrm -$letter of the kernel's" shared "$mix" ipcrm -$letter "$theirs"
		ok "it is gone" not_listed $others $letter "$theirs"
	done <<-'KINDS'
		m M -M 4096
		s S -S 2
		q Q -Q
	KINDS
else
	skipped=$((skipped + 1))
	echo "skipped: ipcs, ipcrm and ipcmk are not installed"
fi

# Words that mean nothing: a sentence, and exit code 2.
bad() { # share, what the sentence says
	$vshmem run --pool "$pool" --share "$1" -- true >"$work/said" 2>&1
	local code=$?
	ok "--share '$1' is refused with exit code 2, not $code" test $code = 2
	ok "--share '$1' is refused for its reason" grep -q -- "$2" "$work/said"
}
bad '' 'none of all, shm, sem, msg, key=LO-HI, posix, posix=PREFIX, posix-shm, posix-sem, mq and pthread'
bad 'posix=' 'no beginning of names'
bad 'shared' '"shared" is none of all'
bad 'shm,' '"" is none of all'
bad 'shm;sem' 'none of all'
bad 'all,posix-msg' '"posix-msg" is none of all'
bad 'key=7' 'key=K-K'
bad 'key=9-1' 'ends before it begins'
bad 'key=-5-5' 'two ranges'
bad 'key=0-0x1ffffffff' '32 bits'
bad 'key=abc-abd' '32 bits'

# A library that is given nonsense all the same shares System V's objects rather than nothing.
ok "VSHMEM_SHARE=nonsense" shared all env VSHMEM_SHARE=nonsense "$probe" kinds 1 1 1

# What needs a kernel to ourselves: its ids grow into the pool's, or are long.
alone() { unshare --mount --ipc "$@"; }
if alone true 2>/dev/null; then
	ok "ids of the kernel that look like the pool's" alone $vshmem run --pool "$pool" --share "$mix" -- "$probe" clash $out
	echo 'quiet ipcmni_extend' >"$work/cmdline"
	extended() { # code, share
		alone sh -c 'mount --bind "$1" /proc/cmdline && shift && exec "$@"' sh "$work/cmdline" \
			$vshmem run --pool "$pool" --share "$2" -- true 2>"$work/said"
		test $? = "$1"
	}
	ok "ipcmni_extend and keys here and there" extended 1 "$mix"
	ok "the reason is said" grep -q 'ipcmni_extend' "$work/said"
	ok "ipcmni_extend and whole kinds" extended 0 shm,sem
else
	skipped=$((skipped + 1))
	echo "skipped: long ids of the kernel (namespaces need root)"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
