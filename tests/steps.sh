# Steps of a test run, for tests/run and tests/run_long: `. tests/steps.sh` from the tree's root, with $logs set, and $again, the
# command that runs one step alone, as printf's format for its name. Each step's output goes to $logs/STEP.log, its end to the
# terminal when it fails; `finish` prints how long each took and the line that counts them all.
#   ONLY='oracle signals'    the steps with these names and no others
#   STEP_SECONDS=300         no step may take longer than that, in s, whatever it asks for
#   steps=list               `step` names the steps instead of running them
#   line=NAME                this is a line of steps that runs beside others, which call it so
# Not for what the steps run.
export -n line steps
cargo=$(command -v cargo || echo "$HOME/.cargo/bin/cargo")
mkdir -p "$logs"
passed=0 failed=0 skipped=0
failures= # a line for each test that failed: `STEP: NAME`
times= # a line for each step: `SECONDS NAME`

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

is_wanted() { [ -z "${ONLY:-}" ] || [[ " $ONLY " == *" $1 "* ]]; } # is_wanted NAME

step() { # step NAME SECONDS COMMAND...: runs a command, or a function that has been exported, with an end in sight
	local name=$1 limit=$2 began=$SECONDS status
	shift 2
	if [ "${steps:-}" = list ]; then echo "$name"; return; fi
	is_wanted "$name" || return 0
	[ "${STEP_SECONDS:-$limit}" -ge "$limit" ] || limit=$STEP_SECONDS
	timeout -k 10 "$limit" bash -c '"$@"' bash "$@" >"$logs/$name.log" 2>&1 </dev/null
	status=$?
	[ $status != 124 ] || echo "it did not end within $limit s" >>"$logs/$name.log"
	report "$name" $status $((SECONDS - began))
}

report() { # report NAME STATUS SECONDS
	local name=$1 status=$2 log=$logs/$1.log p f s
	read -r p f s < <(count "$log")
	# A step that fails without counting a failure has failed as a whole.
	if [ "$status" != 0 ] && [ "$f" = 0 ]; then f=1; fi
	if [ "$f" != 0 ]; then
		echo "==== $name failed (exit status $status); the end of ${log#"$PWD/"}:"
		tail -n 100 "$log"
		# shellcheck disable=SC2059
		printf "==== to run it alone: $again\n" "$name"
		failures+=$(failed_tests "$log" | sed "s/^/$name: /")$'\n'
	fi
	grep -h 'SKIPPED:' "$log"
	printf '%-24s %4d passed, %d failed, %d skipped   (%d s)\n' "$name" "$p" "$f" "$s" "$3"
	times+="$3 $name"$'\n'
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# A line of steps that runs beside the others: a run of its own, whose report comes when it is joined.
declare -A beside=() # the process of each
begin_beside() { # begin_beside NAME COMMAND...
	local name=$1
	shift
	rm -f "$logs/$name.times"
	line=$name setsid "$@" >"$logs/$name.line" 2>&1 </dev/null &
	beside[$name]=$!
}
end_beside() {
	local process
	for process in "${beside[@]}"; do pkill -TERM -s "$process"; wait "$process"; done 2>/dev/null
	beside=()
}
join_beside() { # join_beside NAME: shows its report, and adds up what it has counted
	local p=0 f=0 s=0 line=$logs/$1.line
	wait "${beside[$1]}"
	unset "beside[$1]"
	if [[ $(tail -n 1 "$line") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
	else
		f=1
		echo "$1: it was not run to its end" | tee -a "$line"
	fi
	sed '/^the longest of/,$d' "$line"
	# What its own end says of failures and of times.
	failures+=$(sed -n '/^failed, with the whole output/,/passed, [0-9]* failed/p' "$line" | sed '1d;$d')
	[ -z "$failures" ] || failures=${failures%$'\n'}$'\n'
	[ ! -e "$logs/$1.times" ] || times+=$(sed 's/ s  / /' "$logs/$1.times")$'\n'
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# How long each step took, what has failed, by name, and the last line: `N passed, N failed, N skipped`. Its status is that of the
# whole run.
finish() {
	local kept=$logs/${line:+$line.}times
	grep . <<<"$times" | sort -rn | sed 's/ / s  /' >"$kept"
	echo "the longest of $(wc -l <"$kept") steps, in $SECONDS s (all in ${kept#"$PWD/"}):"
	head -n 12 "$kept"
	[ "$skipped" = 0 ] || echo "skipped: $skipped (what this machine cannot run is named above; others skip themselves, as on the kernel)"
	[ -z "$failures" ] || printf 'failed, with the whole output in %s:\n%s' "${logs#"$PWD/"}/STEP.log" "$failures"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
}
