#!/bin/bash
# Whether steps.sh counts right what a step has run: a program, a function, what has failed, what does not end.
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/checks.sh

# The summary of a run with one step, which is the command that is given.
run_of() { # run_of COMMAND...
	logs=$work bash -c '
		. tests/steps.sh
		count_one() { "$@" && echo "2 passed, 0 failed"; }
		export -f count_one
		step one 1 "$@"
		finish' bash "$@" | tail -n 1
}
summary_is() { # summary_is SUMMARY COMMAND...
	local wanted=$1 got
	shift
	got=$(run_of "$@")
	[ "$got" = "$wanted" ] || { echo "$got instead of $wanted"; return 1; }
}
ok "a program's tests are counted" summary_is "3 passed, 1 failed, 0 skipped" echo "3 passed, 1 failed"
ok "a function of the caller's can be a step" summary_is "2 passed, 0 failed, 0 skipped" count_one true
ok "a step that fails without a count has failed" summary_is "0 passed, 1 failed, 0 skipped" count_one false
ok "a step without an end is ended, and has failed" summary_is "0 passed, 1 failed, 0 skipped" sleep 1000
ok "what is skipped has not passed" summary_is "0 passed, 0 failed, 1 skipped" printf 'SKIPPED: no device\n1 passed, 0 failed\n'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
