# Checks of a test in shell, to be sourced: `ok WHAT COMMAND...` counts in $passed or $failed. A command that fails shows what it
# wrote (kept in $work/out), and then what `explain` shows, where the test has such a function.
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
