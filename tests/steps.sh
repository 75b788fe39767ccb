# Steps of a test run, for tests/run and tests/run_long: `. tests/steps.sh` from the tree's root.
# Each step's output goes to $logs/STEP.log, and to the terminal when it fails; `finish` prints the line that counts them all.
cargo=$(command -v cargo || echo "$HOME/.cargo/bin/cargo")
mkdir -p "$logs"
passed=0 failed=0 skipped=0
failures= # a line for each test that failed: `STEP: NAME`

# Adds up the closing lines of a log: cargo's, and `N passed, N failed[, N skipped]`.
count() {
	awk '
		/^test result:/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^failed/) f += $(i-1); if ($i ~ /^ignored/) s += $(i-1) } }
		/^[0-9]+ passed, [0-9]+ failed/ { p += $1; f += $3; if ($6 ~ /skipped/) s += $5 }
		/SKIPPED:/ { s++; p-- }
		END { print p + 0, f + 0, s + 0 }' "$1"
}

# What has failed by a log, a line each: cargo's names, those of `FAILED NAME`, and why a program ended that told no name.
failed_tests() {
	awk '
		function tell(text) {
			text = substr(text, 1, 150)
			if (!(text in told) && ++n <= 12) print text
			told[text]
		}
		/^test .* \.\.\. +FAILED/ { sub(/^test /, ""); sub(/ *\.\.\. +FAILED.*/, ""); tell($0); next }
		/^failures:$/ { names = 1; next }
		/^test result:/ { names = 0 }
		names && /^    [^ ]+$/ { tell($1); next }
		/^FAILED[: ]/ { sub(/^FAILED:? /, ""); tell($0); next }
		/has been running for over/ { sub(/.*test /, ""); long = $1; next }
		/this call has (no end|panicked)|it did not end within|could not compile|The probe failed|the probe failed/ { tell($0); next }
		/exit successfully.*signal/ { sub(/.*\(signal/, "(signal"); tell((long ? long " " : "") $0); next }
		/^error: test failed/ { sub(/.*pass /, ""); tell($0); next }
		NF { last = $0 }
		END { if (n == 0) tell(last); if (n > 12) print "and " n - 12 " more" }' "$1"
}

# Runs a command, or a function that has been exported, with an end in sight, its output in the step's log.
bounded() { # bounded NAME SECONDS COMMAND...
	local log=$logs/$1.log limit=$2 status
	shift 2
	timeout -k 10 "$limit" bash -c '"$@"' bash "$@" >"$log" 2>&1 </dev/null
	status=$?
	[ $status != 124 ] || echo "it did not end within $limit s" >>"$log"
	return $status
}

report() { # report NAME STATUS SECONDS
	local name=$1 status=$2 log=$logs/$1.log p f s
	read -r p f s < <(count "$log")
	# A step that fails without counting a failure has failed as a whole.
	if [ "$status" != 0 ] && [ "$f" = 0 ]; then f=1; fi
	if [ "$f" != 0 ]; then
		echo "==== $name failed (exit status $status); its output:"
		tail -n 400 "$log"
		echo "===="
		failures+=$(failed_tests "$log" | sed "s/^/$name: /")$'\n'
	fi
	grep -h 'SKIPPED:' "$log"
	printf '%-24s %4d passed, %d failed, %d skipped   (%d s)\n' "$name" "$p" "$f" "$s" "$3"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

step() { # step NAME SECONDS COMMAND...
	local began=$SECONDS
	bounded "$@"
	report "$1" $? $((SECONDS - began))
}

# A step of those that run beside the others: it is reported by `joined`.
aside() { # aside NAME SECONDS COMMAND...
	local began=$SECONDS
	bounded "$@"
	echo "$? $((SECONDS - began))" >"$logs/$1.ended"
}

beside= # the process that runs them
# Ends it, with what it runs just now: it must not go on to its next step.
end_beside() {
	[ -z "$beside" ] || { kill -TERM "$beside" $(pgrep -P "$beside"); wait "$beside"; } 2>/dev/null
}
await_beside() {
	wait "$beside"
	beside=
}

# Reports such a step once the process that ran it has ended.
joined() { # joined NAME
	local status=1 seconds=0
	if [ -e "$logs/$1.ended" ]; then
		read -r status seconds <"$logs/$1.ended"
	else
		echo "it was not run to its end" >>"$logs/$1.log"
	fi
	report "$1" "$status" "$seconds"
}

# What has failed, by name, and the last line: `N passed, N failed, N skipped`. Its status is that of the whole run.
finish() {
	[ "$skipped" = 0 ] || echo "skipped: $skipped (what this machine cannot run is named above; others skip themselves, as on the kernel)"
	[ -z "$failures" ] || printf 'failed, with the whole output in %s:\n%s' "${logs#"$PWD/"}/STEP.log" "$failures"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
}
