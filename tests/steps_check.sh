#!/bin/bash
# Whether steps.sh counts right what a step has run: a program, a function, what has failed, what does not end.
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/checks.sh

# The summary of a run with one step, which is the command that is given.
run_of() { # run_of COMMAND...
	logs=$work again="make test ONLY=%s" bash -c '
		. tests/steps.sh
		count_one() { "$@" && echo "2 passed, 0 failed"; }
		export -f count_one
		step one 1 "$@"
		finish' bash "$@" >"$work/said"
	tail -n 1 "$work/said"
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
says() { run_of "${@:2}" >/dev/null; grep -qF -- "$1" "$work/said" || { cat "$work/said"; return 1; }; }
ok "a step that fails shows its end" says "the last words" sh -c 'echo the last words; exit 1'
ok "and the command that runs it alone" says "make test ONLY=one" false
ok "a step that is not wanted is not run" eval 'ONLY="two three" summary_is "0 passed, 0 failed, 0 skipped" echo "1 passed, 0 failed"'
ok "and one that is wanted is" eval 'ONLY="two one" summary_is "1 passed, 0 failed, 0 skipped" echo "1 passed, 0 failed"'
ok "how long each took is kept" eval 'run_of true >/dev/null; grep -qE "^[0-9]+ s  one$" "$work/times"'
# A line of steps beside this one: what it has counted and what has failed is this run's, too.
line_of() { # line_of COMMAND...: the summary of a run with a line of one step, the command
	logs=$work again="make test ONLY=%s" bash -c '
		. tests/steps.sh
		begin_beside aside bash -c ". tests/steps.sh; step other 5 \"\$@\"; finish" bash "$@"
		step one 5 echo "1 passed, 0 failed"
		join_beside aside
		finish' bash "$@" >"$work/said"
	tail -n 1 "$work/said"
}
line_is() {
	local got
	got=$(line_of "${@:2}")
	[ "$got" = "$1" ] || { echo "$got instead of $1"; cat "$work/said"; return 1; }
}
ok "a line's tests are counted" line_is "3 passed, 0 failed, 0 skipped" echo "2 passed, 0 failed"
ok "a line's failures, too" line_is "1 passed, 1 failed, 0 skipped" false
ok "and named" grep -q "^other: " "$work/said"
ok "a line that breaks off has failed" line_is "1 passed, 1 failed, 0 skipped" sh -c 'kill -KILL -$PPID $PPID; pkill -KILL -s 0'
ok "what is skipped has not passed" summary_is "0 passed, 0 failed, 1 skipped" printf 'SKIPPED: no device\n1 passed, 0 failed\n'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
