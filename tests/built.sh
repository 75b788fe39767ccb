# What tests/run builds for the steps, and how they start it: `. tests/built.sh`, with $logs, $cargo, $vshmem and $pool set.

# The product and its tests, in one profile and one run of cargo: features are those of the whole workspace, so nothing is compiled
# twice. Those with crash points are apart, as all that they rest on has them. What tests the tools (lab, bench, soak) comes later, in
# the same way, and the rules about the tree (vshmem_structure), which rest on nothing, in a step of their own.
build_tests() { # build_tests product|tools
	local only=(--exclude vshmem_structure)
	if [ "$1" = product ]; then
		make -s -j"$(nproc)" -C tests/conformance/probe && make -s -C tests/conformance/share || return
		only+=(--exclude vshmem_bench --exclude vshmem_lab --exclude vshmem_soak)
		"$cargo" build --profile quick --workspace "${only[@]}" --features vshmem_ipc/crash-points --test crash --test crash_guests \
			--message-format json-render-diagnostics >"$logs/built-crash.json" || return
	fi
	"$cargo" build --profile quick --workspace "${only[@]}" --lib --bins --tests --message-format json-render-diagnostics >"$logs/built-$1.json" &&
		make -s library BIN_DIR=target/quick && echo "1 passed, 0 failed"
}

# A test binary runs without cargo, which would wait for what it builds elsewhere: built FOLDER NAME [WORDS...], as cargo does.
built() {
	local program folder=$1 name=$2
	shift 2
	program=$(cat "$logs"/built-*.json | sed -n "s,.*/$folder#.*\"name\":\"$name\".*\"profile\":{[^}]*\"test\":true}.*\"executable\":\"\([^\"]*\)\".*,\1,p" | tail -1)
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
