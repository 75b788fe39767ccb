#!/bin/bash
# The docs against the tree and the command: no dead link, no mention of a page or test that is not there, every verb, limit and decision listed.
#   run.sh VSHMEM [--write]     --write: docs/reference/commands.md is made anew
# Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
vshmem=$1
passed=0 failed=0
check() { # check NAME COMMAND...: the command prints what is wrong, a line each
	local what=$1 wrong
	shift
	wrong=$("$@" 2>&1)
	if [ -z "$wrong" ]; then
		passed=$((passed + 1)); echo "ok: $what"
	else
		failed=$((failed + 1)); echo "FAILED: $what"; echo "$wrong"
	fi
}

if [ "$2" = --write ]; then
	tests/docs/commands "$vshmem" >docs/reference/commands.md
fi

# All files, also in a tree without git (a released archive).
files() { git ls-files --cached --others --exclude-standard 2>/dev/null | grep . || find . -name target -prune -o -name build -prune -o -type f -printf '%P\n'; }

links() { files | grep '\.md$' | while read -r page; do [ ! -e "$page" ] || echo "$page"; done | perl tests/docs/links.pl; }

# What sources and scripts say of docs/..., with the place. Other projects have pages of such names, too.
mentions() {
	files | grep -vE '\.md$|^tests/docs/' | tr '\n' '\0' |
		xargs -0 grep -noIHE 'docs/(guide|reference|internals|results|decisions|glossary)[0-9a-z/_.-]*|docs/[a-z-]+\.md' 2>/dev/null |
		grep -vE ':docs/(pmem|ivshmem|device_model)\.md' | while IFS=: read -r file line page; do
		page=${page%.}
		[ -e "$page" ] || compgen -G "$page*" >/dev/null || echo "$file:$line: $page"
	done
}

commands() { tests/docs/commands "$vshmem" | diff docs/reference/commands.md - | head -40; }

rows() {
	"$vshmem" bench sysv --list | sed 1d | cut -d ' ' -f 1 | grep . >"$names" || echo "vshmem bench sysv --list names no rows"
	while read -r row; do
		grep -q "^| .*\`$row\`.* |" docs/guide/measuring.md || echo "$row is missing"
	done <"$names"
}
limits() {
	"$vshmem" pool create docs-check --size 64M --limit none-of-these=1 2>&1 | sed -n 's/.*The limits are //p' | tr ' ' '\n' | grep . >"$names" ||
		echo "the command names no limits"
	while read -r limit; do
		grep -q "^| \`$limit\`" docs/reference/limits.md || echo "$limit is missing"
	done <"$names"
}

decisions() {
	local page
	for page in docs/internals/decisions/[0-9]*.md; do
		grep -q '^Date: 20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]\. Status: ' "$page" || echo "$page has no line 'Date: ... Status: ...'"
		grep -q "(${page##*/})" docs/internals/decisions/README.md || echo "$page is not in docs/internals/decisions/README.md"
	done
}

# Rows `| nr | `file` | `function`, `function` | what |` of the walks: each function is there, and all but a walk's first are called
# at that stop or an earlier one.
walks() {
	local number file cell function stops=()
	grep -E '^\| [0-9]+ \|' docs/internals/walks.md | while IFS="|" read -r _ number file cell _; do
		file=$(tr -d '` ' <<<"$file")
		if [ ! -e "$file" ]; then echo "there is no $file"; continue; fi
		[ "$number" != ' 1 ' ] || stops=()
		stops+=("$file")
		for function in $(grep -o '`[a-z0-9_]*`' <<<"$cell" | tr -d '`'); do
			grep -qE "fn $function\b" "$file" || echo "there is no function $function in $file"
			[ "$number" = ' 1 ' ] || grep -hE "\b$function\(" "${stops[@]}" | grep -qvE "fn $function\b" ||
				echo "$function is called at none of the stops before it in $file"
		done
	done
}

# A page of section 3 for everything that libvshmem exports, made as `make manual` makes it, and found by `man`.
library_pages() {
	local header='crates/vshmem_capi/include/vshmem.h crates/vshmem_capi/include/vshmem_team.h' call
	mkdir "$pages/man3" && awk -v version=0 -v directory="$pages/man3" -v examples=examples/library -f packaging/man/libvshmem.awk $header || return
	nm -D --defined-only "$(dirname "$vshmem")/libvshmem.so" | awk '$3 ~ /^vshmem_/ { sub(/@.*/, "", $3); print $3 }' | sort >"$names"
	[ -s "$names" ] || echo "$(dirname "$vshmem")/libvshmem.so exports nothing"
	while read -r call; do
		[ -s "$pages/man3/$call.3" ] || echo "$call has no page: no group of $header has it"
	done <"$names"
	for page in "$pages"/man3/vshmem_*.3; do
		call=$(basename "$page" .3)
		grep -q "^$call$" "$names" || grep -q "^typedef .* $call(" $header || echo "$call has a page and is not exported"
		grep -q '^.so ' "$page" && continue
		for section in NAME SYNOPSIS DESCRIPTION 'RETURN VALUE' ERRORS EXAMPLES 'SEE ALSO'; do
			grep -q "^.SH $section$" "$page" || echo "$call.3 has no section $section"
		done
	done
}
# What man-db says of them: troff's warnings, and names that `apropos` would not know.
pages_in_man() {
	local page
	cd "$pages" || return
	for page in man3/*.3; do
		MANPATH=$pages man -w 3 "$(basename "$page" .3)" >/dev/null
		grep -q '^.so ' "$page" && continue
		man --warnings -l "$page" 2>&1 >/dev/null
		lexgrog "$page" | grep -v ': "'
	done
}

# A command begins in the guest's own /root, which is empty: a path that is relative here leads nowhere there.
paths_in_guests() {
	files | grep '\.md$' | xargs grep -nE '^[^|]*lab exec ' | grep -v 'docs/internals/' | grep -E ' (\./|[A-Za-z0-9_.-]+/)[^ ]*'
}

names=$(mktemp) || exit 1
pages=$(mktemp -d) || exit 1
trap 'rm -rf "$names" "$pages"' EXIT
check "links between pages, and to headings" links
check "pages that the sources mention" mentions
check "programs that guests of a lab run are named by their whole path" paths_in_guests
check "docs/reference/commands.md is what --help prints (tests/docs/run.sh VSHMEM --write)" commands
check "every limit is in docs/reference/limits.md" limits
check "every row of vshmem bench sysv is in docs/guide/measuring.md" rows
check "decisions have date and status, and are in the index" decisions
check "files and functions that docs/internals/walks.md names" walks
check "everything that libvshmem exports has a man page" library_pages
if command -v man >/dev/null && command -v lexgrog >/dev/null; then
	check "man shows these pages without a warning" pages_in_man
else
	echo "SKIPPED: man and lexgrog are not there (scripts/setup guests installs man-db)"; passed=$((passed + 1))
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
