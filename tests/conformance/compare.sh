#!/bin/sh
# Runs the probe on the kernel and behind a prefix, and compares what each case observed:
#   compare.sh PROBE 'CMD PREFIX' [CASE...]       e.g.  compare.sh build/conformance/probe 'vshmem run --pool demo --'
# A case fails when the two outputs differ, unless expected_differences.txt names it with a reason. A case that is
# named there and does not differ fails too: the reason is out of date, unless it begins with "sometimes". JOBS=N runs N cases at a time,
# TURNS=P has each repeat what it repeats at P percent of the turns.
here=$(dirname "$0")
probe=$1 prefix=$2
if [ ! -x "$probe" ]; then
	echo "usage: $0 PROBE 'CMD PREFIX' [CASE...]" >&2
	exit 2
fi
shift 2
expected=${EXPECTED_DIFFERENCES:-$here/expected_differences.txt}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
options="--timeout ${SECONDS_EACH:-20} --jobs ${JOBS:-1} --turns ${TURNS:-100}"

"$probe" $options "$@" >"$work/kernel" || { echo "the probe failed on the kernel" >&2; exit 1; }
$prefix "$probe" $options "$@" >"$work/prefixed" || { echo "the probe failed behind: $prefix" >&2; exit 1; }
"$probe" --list "$@" >"$work/cases"

# Per case: equal, differing, skipped. Cases print "name: ...", the expected differences "name  reason".
awk -v kernel="$work/kernel" -v prefixed="$work/prefixed" -v expected="$expected" '
	function load(file, into,    line, name) {
		while ((getline line < file) > 0) {
			name = line
			sub(/:.*/, "", name)
			into[name] = into[name] line "\n"
		}
	}
	BEGIN {
		load(kernel, on_kernel)
		load(prefixed, behind)
		while ((getline line < expected) > 0)
			if (line !~ /^[ \t]*(#|$)/) {
				name = line
				sub(/[ \t].*/, "", name)
				sub(/^[^ \t]+[ \t]+/, "", line)
				reason[name] = line
			}
	}
	{
		same = on_kernel[$1] == behind[$1]
		if (on_kernel[$1] ~ /: (BROKEN|TIMEOUT|CRASHED)/) {
			failed++
			printf "FAILED %s: the kernel run itself did not finish\n%s", $1, on_kernel[$1]
		} else if (on_kernel[$1] ~ /: skipped/ && same) {
			skipped++
			print "skipped " $1
		} else if (same && (!($1 in reason) || reason[$1] ~ /^sometimes/)) {
			passed++
		} else if (same) {
			failed++
			print "FAILED " $1 ": expected to differ (" reason[$1] ") and does not"
		} else if ($1 in reason) {
			passed++
			print "differs as expected " $1 ": " reason[$1]
		} else {
			failed++
			n = split(on_kernel[$1], a, "\n"); m = split(behind[$1], b, "\n")
			print "FAILED " $1
			for (i = 1; i < n || i < m; i++)
				if (a[i] != b[i])
					printf "  kernel: %s\n  here:   %s\n", a[i], b[i]
		}
	}
	END {
		printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
		exit failed > 0 || NR == 0
	}
' "$work/cases"
