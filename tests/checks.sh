# Checks of a test in shell, to be sourced: `ok WHAT COMMAND...` counts in $passed or $failed. A command that fails shows what it
# wrote (kept in $work/out), and then what `explain` shows, where the test has such a function. `check WHAT CONDITION...` is for
# functions that keep what their programs wrote in $log: its end is shown.
passed=0 failed=0
ok() { # ok WHAT COMMAND...
	local what=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		passed=$((passed + 1)); echo "ok: $what"
	else
		failed=$((failed + 1)); echo "FAILED: $what"; cat "$work/out"
		if [ "$(type -t explain)" = function ]; then explain; fi
	fi
}
check() { # check WHAT CONDITION...
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1)); echo "ok: $what"
	else
		failed=$((failed + 1)); echo "FAILED: $what"; tail -20 "$log"
	fi
}
# For want of what is optional.
skipped() { echo "SKIPPED: $1"; passed=$((passed + 1)); }
