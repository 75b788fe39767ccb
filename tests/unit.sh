#!/bin/bash
# Every test binary of the crates' own, of those that cargo built, as many at a time as there are processors: most of them wait.
#   tests/unit.sh MESSAGES [BUT|ONLY PATTERN]     cargo's messages as JSON; grep -E's PATTERN is of `FOLDER PROGRAM`
# What boots guests or takes long has steps of its own. Each runs where cargo would run it.
messages=$1
case ${2:-} in
BUT) pick=(grep -vE "$3") ;;
ONLY) pick=(grep -E "$3") ;;
*) pick=(cat) ;;
esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
one() { # one FOLDER PROGRAM: its output is one piece in the log
	local said=$1/$(basename "$3") status
	(cd "$2" && "$3" --quiet) >"$said" 2>&1 </dev/null
	status=$?
	echo "$3 ($status)"
	cat "$said"
	return $status
}
export -f one
sed -n 's,.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*,\1 \2,p' "$messages" |
	grep -vE '/tests/(acceptance|soak) |/tools/lab .*/(guests|qemu|xen)-[0-9a-f]*$' | "${pick[@]}" >"$work/all"
# The longest of them first.
long='vshmem_ipc .*/(hostile|behaviour)-'
{ grep -E "$long" "$work/all"; grep -vE "$long" "$work/all"; } >"$work/list"
[ -s "$work/list" ] || { echo "FAILED: $messages names no test binary"; exit 1; }
xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' bash "$work" <"$work/list"
