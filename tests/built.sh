# What tests/run builds for the steps, and how they start it: `. tests/built.sh`, with $logs, $cargo, $vshmem and $pool set.

# Every test binary and the product itself, in one profile and one run of cargo: features are those of the whole workspace, so nothing
# is compiled twice. Those that need crash points are apart, as all that they rest on has them.
build_tests() {
	"$cargo" build --profile quick --workspace --lib --bins --tests --message-format json-render-diagnostics >"$logs/built.json" &&
		"$cargo" test --no-run --profile quick -p vshmem_ipc --features crash-points --test crash --test crash_guests \
			--message-format json-render-diagnostics >"$logs/built-crash.json" &&
		packaging/shared_library target/quick/libvshmem.a target/quick/libvshmem.so.0 && echo "1 passed, 0 failed"
}

# A test binary runs without cargo, which would wait for what it builds elsewhere: built FOLDER NAME [WORDS...], as cargo does.
built() {
	local program folder=$1 name=$2 file=built
	shift 2
	case $name in crash | crash_guests) file=built-crash ;; esac
	program=$(sed -n "s,.*/$folder#.*\"name\":\"$name\".*\"profile\":{[^}]*\"test\":true}.*\"executable\":\"\([^\"]*\)\".*,\1,p" "$logs/$file.json" | head -1)
	export CARGO=$cargo
	cd "$folder" && "${program:?$folder: $name was not built}" "$@"
}

with_pool() { # with_pool SIZE COMMAND...: on a pool of its own, $pool, which is gone afterwards
	local size=$1 status
	shift
	"$vshmem" pool create "$pool" --size "$size" --mode 0666 >/dev/null || return 1
	"$@"
	status=$?
	"$vshmem" pool rm "$pool" --force >/dev/null
	return $status
}
export -f build_tests built with_pool
export logs cargo
